-- Drives a headless Neovim through the file of the documentation; what it saw is written as JSON.
local seen, warnings = {}, {}
vim.notify = function(words) table.insert(warnings, words) end
package.path = vim.env.GLOVEPORT_LUA .. "/?.lua;" .. package.path
local gloveport = require("gloveport")

local function text() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n" end
local function until_(holds) return vim.wait(20000, holds, 20) end
local function cursor(line) vim.api.nvim_win_set_cursor(0, { line, 0 }) end
local function lenses() return #vim.lsp.codelens.get(0) end
local function until_lenses(count)
  until_(function()
    gloveport.refresh()
    vim.wait(200)
    return lenses() == count
  end)
  return lenses()
end
local function run(command)
  local done = nil
  local before = #warnings
  gloveport.run(command, function(result) done = result or true end)
  until_(function() return done ~= nil or #warnings > before end)
  return done
end

-- Without a daemon: it was killed under the client, and the next command finds it again.
local function after_a_kill()
  os.execute("kill -9 " .. vim.env.GLOVEPORT_PID)
  until_(function() return vim.lsp.get_client_by_id(gloveport.client) == nil end)
  until_(function() return #warnings > 0 end)
  local gone = gloveport.client
  cursor(2)
  local original = text()
  seen.accepted = run("gloveport.acceptHunk") ~= nil
  until_(function() return text() ~= original end)
  seen.anew, seen.after_accept = gloveport.client ~= gone, text()
end

local ok, failure = pcall(function()
  -- What is typed reaches the server with the next request only, so that an edit can come for an older version.
  gloveport.setup({ cmd = vim.fn.json_decode(vim.env.GLOVEPORT_LSP), flags = { debounce_text_changes = 600000 } })
  vim.cmd("edit " .. vim.env.GLOVEPORT_FILE)
  local buffer = vim.api.nvim_get_current_buf()
  until_(function()
    local client = gloveport.client and vim.lsp.get_client_by_id(gloveport.client)
    return client ~= nil and client.initialized and vim.lsp.buf_is_attached(buffer, gloveport.client)
  end)
  seen.lenses = until_lenses(9) -- two for each of three hunks, three for the file
  if vim.env.GLOVEPORT_PID then return after_a_kill() end

  cursor(2)
  local original = text()
  seen.accepted = run("gloveport.acceptHunk") ~= nil
  until_(function() return text() ~= original end)
  until_lenses(7)
  seen.after_accept = text()
  vim.cmd("silent undo")
  seen.after_undo = text()
  vim.cmd("silent redo")

  cursor(29)
  seen.rejected = run("gloveport.rejectHunk") ~= nil
  until_lenses(5)
  seen.after_reject = text()

  -- A change that the server has, then one that it has not when the terminal accepts the last hunk.
  vim.api.nvim_buf_set_lines(buffer, 24, 25, false, { "typed one" })
  until_lenses(5)
  vim.api.nvim_buf_set_lines(buffer, 24, 25, false, { "typed two" })
  local code, said = nil, {}
  local function hear(_, data) vim.list_extend(said, data) end
  vim.fn.jobstart(vim.fn.json_decode(vim.env.GLOVEPORT_ACCEPT), {
    on_exit = function(_, status) code = status end, on_stdout = hear, on_stderr = hear,
  })
  until_(function() return code ~= nil end)
  seen.stale_code, seen.stale_words = code, table.concat(said, " ")
  seen.after_stale = text()

  cursor(15)
  local before = text()
  seen.accepted_last = run("gloveport.acceptHunk") ~= nil
  until_(function() return text() ~= before end)
  seen.after_last = text()
  vim.cmd("silent write")
  seen.lenses_left = until_lenses(0)
end)
seen.failure, seen.warnings, seen.ok = not ok and tostring(failure) or nil, warnings, ok
vim.fn.writefile({ vim.fn.json_encode(seen) }, vim.env.GLOVEPORT_SEEN)
vim.lsp.stop_client(vim.lsp.get_active_clients())
vim.wait(1000, function() return #vim.lsp.get_active_clients() == 0 end, 20)
vim.cmd("qa!")
