-- Gloveport in Neovim (0.7 and newer): pending changes as code lenses, decided where they stand.
--
--   require("gloveport").setup()                          -- this file on the runtime path, in lua/
--   require("gloveport").setup({ cmd = { "/path/to/gloveport", "lsp" } })
--
-- Commands: GloveportAccept, GloveportReject, GloveportTake (yours gives way), GloveportAcceptFile, GloveportRejectFile,
-- GloveportNext, GloveportUndo.
-- An accepted change is made in the buffer: `u` takes it back there, `:w` saves it. A client whose daemon is gone is
-- started anew by the next command or look at the file.

local STARTED_MS = 10000

local M = { client = nil, config = nil }

local function running()
  return M.client ~= nil and vim.lsp.get_client_by_id(M.client) ~= nil
end

local function attach(buffer)
  if vim.api.nvim_buf_get_option(buffer, "buftype") ~= "" or vim.api.nvim_buf_get_name(buffer) == "" then
    return
  end
  if not running() then
    M.client = vim.lsp.start_client(M.config)
  end
  if M.client ~= nil then
    vim.lsp.buf_attach_client(buffer, M.client)
  end
end

local function request(method, params, buffer, done)
  if not running() then
    attach(buffer)
    vim.wait(STARTED_MS, function()
      return running() and vim.lsp.get_client_by_id(M.client).initialized
    end, 20)
  end
  local client = M.client and vim.lsp.get_client_by_id(M.client)
  if client == nil then
    return vim.notify("gloveport is not running", vim.log.levels.WARN)
  end
  local function answered(err, result)
    if err ~= nil then
      return vim.notify(err.message, vim.log.levels.ERROR)
    end
    done(result)
  end
  if vim.fn.has("nvim-0.11") == 1 then
    client:request(method, params, answered, buffer)
  else
    client.request(method, params, answered, buffer)
  end
end

-- Show again what is pending in a buffer.
function M.refresh(buffer)
  buffer = buffer or vim.api.nvim_get_current_buf()
  local params = { textDocument = { uri = vim.uri_from_bufnr(buffer) } }
  request("textDocument/codeLens", params, buffer, function(lenses)
    if vim.api.nvim_buf_is_valid(buffer) then
      vim.lsp.codelens.save(lenses, buffer, M.client)
      vim.lsp.codelens.display(lenses, buffer, M.client)
    end
  end)
end

-- Do one of our commands at the cursor; `done` is called with what came of it.
function M.run(command, done)
  local buffer = vim.api.nvim_get_current_buf()
  local line = vim.api.nvim_win_get_cursor(0)[1] - 1
  local place = { line = line, character = 0 }
  local params = {
    textDocument = { uri = vim.uri_from_bufnr(buffer) },
    range = { start = place, ["end"] = place },
    context = { diagnostics = {} },
  }
  request("textDocument/codeAction", params, buffer, function(actions)
    for _, action in ipairs(actions or {}) do
      if action.command == command then
        local chosen = { command = action.command, arguments = action.arguments }
        return request("workspace/executeCommand", chosen, buffer, function(result)
          M.refresh(buffer)
          if done then
            done(result)
          end
        end)
      end
    end
    vim.notify("nothing is proposed here", vim.log.levels.INFO)
  end)
end

local function next_change()
  M.run("gloveport.nextHunk", function(location)
    if location ~= nil and location ~= vim.NIL then
      vim.lsp.util.jump_to_location(location, "utf-16")
    end
  end)
end

function M.setup(options)
  options = options or {}
  M.config = vim.tbl_deep_extend("force", {
    name = "gloveport",
    cmd = { "gloveport", "lsp" },
    root_dir = vim.fn.getcwd(),
  }, options)
  for name, command in pairs({
    GloveportAccept = "gloveport.acceptHunk",
    GloveportReject = "gloveport.rejectHunk",
    GloveportTake = "gloveport.takeHunk",
    GloveportAcceptFile = "gloveport.acceptFile",
    GloveportRejectFile = "gloveport.rejectFile",
    GloveportUndo = "gloveport.undo",
  }) do
    vim.api.nvim_create_user_command(name, function()
      M.run(command)
    end, {})
  end
  vim.api.nvim_create_user_command("GloveportNext", next_change, {})
  local group = vim.api.nvim_create_augroup("gloveport", {})
  vim.api.nvim_create_autocmd("BufReadPost", {
    group = group,
    callback = function(event)
      attach(event.buf)
    end,
  })
  vim.api.nvim_create_autocmd({ "BufEnter", "CursorHold", "FocusGained" }, {
    group = group,
    callback = function(event)
      if M.client ~= nil then
        attach(event.buf)
      end
      if running() and vim.lsp.buf_is_attached(event.buf, M.client) then
        M.refresh(event.buf)
      end
    end,
  })
end

return M
