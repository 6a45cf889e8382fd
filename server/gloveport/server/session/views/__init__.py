"""Views: what is shown, projected from the same events as the state.

Purpose: the operations an event does to the view, and the reference reducer.
Invariant: operations are a function of one event alone, so any client can catch up from any cursor.
Must never: show what is not in the journal.
"""
