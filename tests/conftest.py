"""Settings that every test shares."""

from hypothesis import settings

settings.register_profile("lastlook", settings(), print_blob=True)  # on top of Hypothesis's own profile for CI
settings.load_profile("lastlook")
