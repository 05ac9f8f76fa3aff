"""Comorbidity scores as weighted categories of conditions.

A category is a set of ancestor concepts (SNOMED, by OMOP's concept ids), single concepts without
their descendants, and ancestors whose descendants are excluded. A person with any condition of a
category, at any time up to the last day of the window, receives its weight once.

References
----------
Charlson and others (1987), J Chronic Dis 40:373, with the weights of Charlson's update as OHDSI
uses them. Gage and others (2001), JAMA 285:2864 (CHADS2). Lip and others (2010), Chest 137:263
(CHA2DS2-VASc). Young and others (2008), Am J Manag Care 14:15 (DCSI).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHADS2", "CHADS2VASC", "CHARLSON", "DCSI", "Category"]


@dataclass(frozen=True)
class Category:
    """A category of a score, with its weight and concepts.

    Attributes
    ----------
    ancestors : tuple of int
        Concepts that count with all their descendants.
    without : tuple of int
        Concepts that are excluded with all their descendants.
    alone : tuple of int
        Concepts that count without their descendants.
    """

    weight: int
    ancestors: tuple[int, ...]
    without: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()


CHARLSON = (
    Category(1, (4329847,)),  # myocardial infarction
    Category(1, (316139,)),  # congestive heart failure
    Category(1, (321052,)),  # peripheral vascular disease
    Category(1, (381591, 434056)),  # cerebrovascular disease
    Category(1, (4182210,)),  # dementia
    Category(1, (4063381,)),  # chronic pulmonary disease
    Category(1, (257628, 134442, 80800, 80809, 256197, 255348)),  # rheumatologic disease
    Category(1, (4247120,)),  # peptic ulcer
    Category(1, (4064161, 4212540)),  # mild liver disease
    Category(1, (201820,)),  # diabetes
    Category(2, (443767, 442793)),  # diabetes with chronic complications
    Category(2, (192606, 374022)),  # hemiplegia or paraplegia
    Category(2, (4030518,)),  # renal disease
    Category(2, (443392,)),  # malignancy
    Category(3, (4245975, 4029488, 192680, 24966)),  # moderate to severe liver disease
    Category(6, (432851,)),  # metastatic solid tumour
    Category(6, (439727,)),  # AIDS
)
CHADS2 = (
    Category(1, (316139,)),  # congestive heart failure
    Category(1, (316866,)),  # hypertension
    Category(1, (201820,)),  # diabetes
    Category(2, (381591, 434056)),  # stroke
)
VASCULAR = (
    *(312327, 43020432, 314962, 312939, 315288, 317309, 134380, 196438, 200138, 194393, 319047),
    *(40486130, 317003, 4313767, 321596),
)
CHADS2VASC = (
    Category(1, (316139, 314378), alone=(318773, 321319)),  # congestive heart failure
    Category(1, (320128, 442604, 201313), without=(197930,)),  # hypertension
    Category(1, (201820, 442793), without=(195771, 376112, 4174977, 4058243, 193323, 376979)),
    Category(2, (4043731, 4110192, 375557, 4108356, 373503, 434656, 433505, 376714, 312337)),
    Category(1, VASCULAR, alone=(317305, 321886, 314659, 321887, 437312, 134057)),
)
# Complications of diabetes by ICD-9-CM code, as published: category, points, codes. A code includes
# all codes that begin with it.
DCSI: tuple[tuple[str, int, str], ...] = (
    ("retinopathy", 1, "250.5 362.01 362.1 362.83 362.53 362.81 362.82"),
    ("retinopathy", 2, "361 369 362.02 379.23"),
    ("nephropathy", 1, "250.4 580 581 582 583"),
    ("nephropathy", 2, "585 586 593.9"),
    ("neuropathy", 1, "356.9 250.6 358.1 951.0 951.1 951.3 713.5 357.2 596.54 337.0 337.1"),
    ("neuropathy", 1, "564.5 536.3 458.0 354 355"),
    ("cerebrovascular", 1, "435"),
    ("cerebrovascular", 2, "431 433 434 436"),
    ("cardiovascular", 1, "440 411 413 414 429.2"),
    ("cardiovascular", 2, "410 427.1 427.3 427.4 427.5 412 428 441 440.23 440.24"),
    ("peripheral vascular disease", 1, "250.7 442.3 892.1 443.9 443.81"),
    ("peripheral vascular disease", 2, "785.4 707.1 040.0 444.22"),
    ("metabolic", 2, "250.1 250.2 250.3"),
)
