"""What a command line would do, word by word.

Purpose: tell the simple commands, redirects and paths of a command line, or why they can't be told.
Invariant: what can't be proven literal is a doubt, and a doubt only ever means that somebody is asked.
Must never: parse; a syntax tree is handed in as plain data.
"""
