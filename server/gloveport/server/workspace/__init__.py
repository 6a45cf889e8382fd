"""The user's folder and the session's copy of it: snapshots, proposals, and accepted changes put back."""
