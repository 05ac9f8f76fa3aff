"""Plans of specifications of Strategus and ATLAS: reading, verdicts, translation."""
