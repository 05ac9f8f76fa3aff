"""The only exit for results about people: the release of each study design."""
