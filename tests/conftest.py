"""What holds for every test.

Purpose: a property takes the time it takes: how busy the machine is decides no test; pytest's own limit catches a hang.
Invariant: everything else of the profile that is in force (a CI's own, say) stays.
Must never: hold a fixture or change what a test sees.
"""

from hypothesis import settings

settings.register_profile("timeless", settings(deadline=None))
settings.load_profile("timeless")
