;;; Drives eglot in batch; what it saw is written as JSON.  -*- lexical-binding: t -*-
(require 'eglot)
(require 'json)
(setq eglot-sync-connect 20
      eglot-autoshutdown nil
      eglot-confirm-server-initiated-edits nil
      eglot-events-buffer-size 0
      eglot-send-changes-idle-time 0
      make-backup-files nil
      create-lockfiles nil)
(defvar seen nil)
(defun saw (key value) (push (cons key value) seen))
(defun wait-for (holds)
  (let ((end (+ (float-time) 20)))
    (while (and (not (funcall holds)) (< (float-time) end))
      (accept-process-output nil 0.05))))

(condition-case failure
    (let (server)
      (add-to-list 'eglot-server-programs
                   (cons 'text-mode (append (json-parse-string (getenv "GLOVEPORT_LSP") :array-type 'list) nil)))
      (find-file (getenv "GLOVEPORT_FILE"))
      (text-mode)
      (buffer-enable-undo)
      (setq server (apply #'eglot--connect (eglot--guess-contact)))
      (unless eglot--managed-mode (eglot--maybe-activate-editing-mode))
      (cl-labels
          ((actions (line)
             (append
              (jsonrpc-request
               server :textDocument/codeAction
               (list :textDocument (eglot--TextDocumentIdentifier)
                     :range (list :start (list :line line :character 0) :end (list :line line :character 0))
                     :context '(:diagnostics [])))
              nil))
           (choose (line command)
             (let ((action (cl-find command (actions line) :key (lambda (each) (plist-get each :command))
                                    :test #'equal)))
               (jsonrpc-request server :workspace/executeCommand
                                (list :command command :arguments (plist-get action :arguments))
                                :timeout 20)))
           (tell () (eglot--signal-textDocument/didChange)) ; eglot itself does it once Emacs is idle
           (type-at-25 (words)
             (goto-char (point-min))
             (forward-line 24)
             (delete-region (line-beginning-position) (line-end-position))
             (insert words))
           (settled (line)
             (wait-for (lambda ()
                         (null (cl-find "gloveport.acceptHunk" (actions line)
                                        :key (lambda (each) (plist-get each :command)) :test #'equal))))))
        (saw 'titles (vconcat (mapcar (lambda (each) (plist-get each :title)) (actions 1))))
        (undo-boundary)
        (choose 1 "gloveport.acceptHunk")
        (tell)
        (settled 1)
        (saw 'afterAccept (buffer-string))
        (undo-boundary)
        (setq last-command nil)
        (undo)
        (saw 'afterUndo (buffer-string))
        (tell)
        (undo-boundary)
        (setq last-command nil)
        (undo)
        (saw 'afterRedo (buffer-string))
        (tell)
        (choose 14 "gloveport.rejectHunk")
        (settled 14)
        ;; A change that the server has, then one that it has not when the terminal accepts the last hunk.
        (type-at-25 "typed one")
        (tell)
        (actions 1)
        (type-at-25 "typed two")
        (let (code (words ""))
          (make-process :name "accept"
                        :command (append (json-parse-string (getenv "GLOVEPORT_ACCEPT") :array-type 'list) nil)
                        :filter (lambda (_process more) (setq words (concat words more)))
                        :sentinel (lambda (process _event)
                                    (unless (process-live-p process) (setq code (process-exit-status process)))))
          (wait-for (lambda () code))
          (saw 'staleCode code)
          (saw 'staleWords words))
        (saw 'afterStale (buffer-string))
        (tell)
        (choose 28 "gloveport.rejectHunk")
        (settled 28)
        (saw 'afterReject (buffer-string))
        (saw 'left (length (actions 1)))
        (save-buffer)
        (saw 'ok t)
        (eglot-shutdown server nil 5)))
  (error (saw 'ok :json-false) (saw 'failure (format "%S" failure))))
(with-temp-file (getenv "GLOVEPORT_SEEN") (insert (json-encode seen)))
