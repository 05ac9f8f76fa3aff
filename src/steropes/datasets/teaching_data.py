"""Published data that other packages contain, in the coding that this library's models take.

No data are shipped here: each function imports the package that has the file and reads it from the
installation. lifelines has the MIT licence, scikit-survival GPL 3 and statsmodels BSD.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pandas as pd

__all__ = [
    "load_bone_marrow_transplants",
    "load_breast_cancer",
    "load_doctor_visits",
    "load_heart_transplants",
    "load_lung",
    "load_rossi",
    "load_veteran",
]


def load_lung() -> pd.DataFrame:
    """Load the survival of 228 patients with advanced lung cancer, from lifelines.

    Returns
    -------
    DataFrame
        ``time`` (days), ``status`` (1 died, 0 censored), ``age`` (years), ``sex`` (1 man, 2 woman),
        ``ph.ecog`` (performance score of the physician, 0 good to 4), ``ph.karno`` and
        ``pat.karno`` (Karnofsky scores of physician and patient, 0 bad to 100), ``meal.cal``
        (calories at meals), ``wt.loss`` (pounds in six months) and ``inst`` (institution). Some
        values are missing. R's ``survival::lung`` has the same rows with ``status`` 1 and 2.

    Raises
    ------
    ImportError
        If lifelines is not installed.

    References
    ----------
    Loprinzi and others (1994), Journal of Clinical Oncology 12:601–607.

    Examples
    --------
    >>> import steropes
    >>> lung = steropes.datasets.load_lung()
    >>> formula = "Surv(time, status) ~ age + sex"
    >>> steropes.CoxRegression.from_formula(formula, lung).coef_.round(4).tolist()
    [0.017, -0.5132]
    """
    lung: pd.DataFrame = _package("lifelines", "lung").datasets.load_lung()
    return lung


def load_rossi() -> pd.DataFrame:
    """Load the time to re-arrest of 432 men after their release from prison, from lifelines.

    Returns
    -------
    DataFrame
        ``week`` of the first arrest or 52, ``arrest`` (1 arrested), ``fin`` (1 financial aid,
        which was randomised), ``age`` (years), ``race`` (1 black), ``wexp`` (1 work experience),
        ``mar`` (1 married), ``paro`` (1 parole) and ``prio`` (number of prior convictions).

    Raises
    ------
    ImportError
        If lifelines is not installed.

    References
    ----------
    Rossi, Berk and Lenihan (1980), Money, Work and Crime.

    Examples
    --------
    >>> import steropes
    >>> rossi = steropes.datasets.load_rossi()
    >>> model = steropes.CoxRegression.from_formula("Surv(week, arrest) ~ .", rossi)
    >>> model.summary()["coef"].round(3).loc["fin"].item()
    -0.379
    """
    rossi: pd.DataFrame = _package("lifelines", "rossi").datasets.load_rossi()
    return rossi


def load_heart_transplants() -> pd.DataFrame:
    """Load the Stanford heart transplants, with a row for each interval, from lifelines.

    Returns
    -------
    DataFrame
        ``start`` and ``stop`` of the interval (days since acceptance), ``event`` (1 died at
        ``stop``), ``age`` (years − 48), ``year`` of acceptance (since 1 November 1967), ``surgery``
        (1 prior bypass surgery), ``transplant`` (1 after the transplant) and ``id`` of the patient.

    Raises
    ------
    ImportError
        If lifelines is not installed.

    References
    ----------
    Crowley and Hu (1977), JASA 72:27–36.

    Examples
    --------
    >>> import steropes
    >>> heart = steropes.datasets.load_heart_transplants()
    >>> y = steropes.Surv(heart["stop"], heart["event"], entry=heart["start"])
    >>> steropes.CoxRegression().fit(heart[["age", "transplant"]], y).coef_.round(3).tolist()
    [0.031, -0.004]
    """
    lifelines = _package("lifelines", "heart transplants")
    heart: pd.DataFrame = lifelines.datasets.load_stanford_heart_transplants()
    return heart


def load_breast_cancer() -> pd.DataFrame:
    """Load recurrence-free survival of 686 women with breast cancer (GBSG 2), from lifelines.

    Returns
    -------
    DataFrame
        ``time`` (days), ``event`` (1 recurrence or death), ``horTh`` (hormonal therapy, yes or
        no), ``age`` (years), ``menostat`` (Pre or Post), ``tsize`` (mm), ``tgrade`` (I, II, III),
        ``pnodes`` (positive nodes), ``progrec`` and ``estrec`` (receptors, fmol).

    Raises
    ------
    ImportError
        If lifelines is not installed.

    References
    ----------
    Schumacher and others (1994), Journal of Clinical Oncology 12:2086–2093.

    Examples
    --------
    >>> import steropes
    >>> data = steropes.datasets.load_breast_cancer()
    >>> steropes.kaplan_meier(steropes.Surv(data["time"], data["event"])).median()
    1807.0
    """
    data: pd.DataFrame = _package("lifelines", "breast cancer").datasets.load_gbsg2()
    return data.rename(columns={"cens": "event"})


def load_veteran() -> pd.DataFrame:
    """Load the Veterans' Administration lung cancer trial (137 men), from scikit-survival.

    Returns
    -------
    DataFrame
        ``time`` (days), ``status`` (1 died), ``trt`` (standard or test), ``celltype``, ``karno``
        (Karnofsky score), ``diagtime`` (months since diagnosis), ``age`` (years) and ``prior``
        (prior therapy, yes or no). The names are those of R's ``survival::veteran``.

    Raises
    ------
    ImportError
        If scikit-survival is not installed.

    References
    ----------
    Kalbfleisch and Prentice (1980), The Statistical Analysis of Failure Time Data, appendix 1.

    Examples
    --------
    >>> import steropes
    >>> veteran = steropes.datasets.load_veteran()
    >>> model = steropes.CoxRegression.from_formula("Surv(time, status) ~ karno", veteran)
    >>> model.coef_.round(4).tolist()
    [-0.0334]
    """
    X, y = _package("sksurv", "veteran").datasets.load_veterans_lung_cancer()
    names = {
        "Treatment": "trt", "Celltype": "celltype", "Karnofsky_score": "karno",
        "Months_from_Diagnosis": "diagtime", "Age_in_years": "age", "Prior_therapy": "prior",
    }  # fmt: skip
    table: pd.DataFrame = X.rename(columns=names)[list(names.values())]
    table.insert(0, "time", y["Survival_in_days"])
    table.insert(1, "status", y["Status"].astype(np.int64))
    return table


def load_bone_marrow_transplants() -> pd.DataFrame:
    """Load 35 bone marrow transplants with competing risks, from scikit-survival.

    Returns
    -------
    DataFrame
        ``time`` (months), ``status`` (0 censored, 1 transplant-related death, 2 relapse) and
        ``dis`` (0 acute lymphoblastic, 1 acute myeloid leukaemia).

    Raises
    ------
    ImportError
        If scikit-survival is not installed.

    References
    ----------
    Scrucca, Santucci and Aversa (2007), Bone Marrow Transplantation 40:381–387.

    Examples
    --------
    >>> import steropes
    >>> bmt = steropes.datasets.load_bone_marrow_transplants()
    >>> curves = steropes.aalen_johansen(steropes.Surv(bmt["time"], bmt["status"]))
    >>> curves.at([24.0]).round(2).to_numpy().tolist()
    [[0.27, 0.45]]
    """
    X, y = _package("sksurv", "bone marrow transplants").datasets.load_bmt()
    table = {"time": y["ftime"], "status": y["status"], "dis": X["dis"].astype(np.int64)}
    return pd.DataFrame(table).reset_index(drop=True)


def load_doctor_visits() -> pd.DataFrame:
    """Load 20,190 counts of doctor visits (RAND health insurance experiment), from statsmodels.

    Returns
    -------
    DataFrame
        ``mdvis`` (visits in a year), ``lncoins`` (log of coinsurance + 1), ``idp`` (1 individual
        deductible), ``lpi`` (log of the participation incentive), ``fmde`` (log of the maximum
        deductible), ``physlm`` (1 physical limitation), ``disea`` (number of chronic diseases),
        ``hlthg``, ``hlthf`` and ``hlthp`` (1 good, fair or poor self-rated health).

    Raises
    ------
    ImportError
        If statsmodels is not installed.

    References
    ----------
    Cameron and Trivedi (2005), Microeconometrics, ch. 20.

    Examples
    --------
    >>> import steropes
    >>> visits = steropes.datasets.load_doctor_visits()
    >>> model = steropes.PoissonRegression.from_formula("mdvis ~ lncoins + disea", visits)
    >>> model.coef_.round(3).tolist()
    [-0.06, 0.041]
    """
    datasets = _package("statsmodels", "doctor visits").datasets
    table: pd.DataFrame = datasets.randhie.load_pandas().data
    return table


def _package(name: str, data: str) -> ModuleType:
    """Import a package and its data sets; explain which package has them if it is missing."""
    install = {"sksurv": "scikit-survival"}.get(name, name)
    try:
        importlib.import_module(f"{name}.datasets")
    except ImportError as error:
        raise ImportError(
            f"The data on {data} come with {install}, which is missing: pip install {install}."
        ) from error
    return importlib.import_module(name)
