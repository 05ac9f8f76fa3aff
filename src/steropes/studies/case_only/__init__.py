"""Case-only and case–control designs in an OMOP database."""

from steropes.studies.case_only.case_only_settings import OmopCaseOnly
from steropes.studies.case_only.case_only_study import CaseOnlyStudy, case_only_study
from steropes.studies.case_only.case_only_tables import case_only_tables

__all__ = ["CaseOnlyStudy", "OmopCaseOnly", "case_only_study", "case_only_tables"]
