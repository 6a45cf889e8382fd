"""Pure edit room: lines, hunks, exact replacement and display of changes; bytes in, bytes out."""
