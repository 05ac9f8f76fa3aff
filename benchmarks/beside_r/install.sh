#!/usr/bin/env bash
# Build the R packages of OHDSI from their public sources, as an oracle to run beside this library.
#
#   install.sh [MIRRORS] [LIBRARY]
#
# MIRRORS (or $MIRRORS) is a folder of bare git mirrors OWNER+NAME/repo of
#   OHDSI/{Andromeda,SqlRender,ParallelLogger,DatabaseConnector,FeatureExtraction,EmpiricalCalibration,
#   Cyclops,CohortMethod,ResultModelManager,SelfControlledCaseSeries,CohortGenerator,Characterization,
#   CohortIncidence,EvidenceSynthesis}, tidyverse/dplyr and beast-dev/{BeastJar,beast-mcmc}.
# LIBRARY (or $R_OHDSI_LIB) is the R library to install into; default: the first of R's libraries.
# Needs apt-get (Debian 12, R 4.2). What is already installed in its version is left alone, so that the
# script can be run again. A package whose mirror is absent is reported and skipped.
# With FETCH=1 an absent mirror is cloned from GitHub first.
# Nothing is copied beside this script: sources are unpacked into a temporary folder and deleted.
set -euo pipefail
MIRRORS=${1:-${MIRRORS:?folder of git mirrors}}
command -v Rscript >/dev/null || { apt-get update -q; apt-get install -y -q --no-install-recommends r-base-dev; }
LIBRARY=${2:-${R_OHDSI_LIB:-$(Rscript -e 'cat(.libPaths()[1])')}}
mkdir -p "$LIBRARY"
export R_LIBS="$LIBRARY" MAKEFLAGS=${MAKEFLAGS:--j2}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# 1. Debian's part. JRE for SqlRender and FeatureExtraction, both of which ship their jars.
apt_packages="default-jre-headless r-base-dev r-cran-rjava r-cran-dbi r-cran-rsqlite r-cran-dbplyr r-cran-dplyr
 r-cran-readr r-cran-vroom r-cran-jsonlite r-cran-checkmate r-cran-r6 r-cran-digest r-cran-snow r-cran-xml2
 r-cran-zip r-cran-urltools r-cran-bit64 r-cran-stringr r-cran-tidyr r-cran-hms r-cran-withr r-cran-lubridate
 r-cran-fastmap r-cran-plyr r-cran-ggplot2 r-cran-gridextra r-cran-survival r-cran-rcpp r-cran-rcppeigen
 r-cran-rstudioapi r-cran-coda r-cran-stringi r-cran-purrr"
missing=$(for p in $apt_packages; do dpkg -s "$p" >/dev/null 2>&1 || echo "$p"; done)
[ -z "$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=400 install -y -q --no-install-recommends $missing

# 2. Stubs for what Debian lacks and no comparison calls: only names.
stub() { # NAME VERSION [R code]
  [ -e "$LIBRARY/$1/DESCRIPTION" ] && return
  mkdir -p "$WORK/stub/$1/R"
  printf 'Package: %s\nVersion: %s\nTitle: Stub\nDescription: Names only.\nLicense: GPL-3\nAuthor: stub\nMaintainer: stub <s@s.s>\nImports: methods\n' "$1" "$2" >"$WORK/stub/$1/DESCRIPTION"
  printf '%s\n' "${3:-NULL}" >"$WORK/stub/$1/R/stub.R"
  printf 'import(methods)\nexportPattern("^[A-Za-z]")\n' >"$WORK/stub/$1/NAMESPACE"
  R CMD INSTALL --no-docs -l "$LIBRARY" "$WORK/stub/$1" >"$WORK/log" 2>&1 || { cat "$WORK/log"; exit 1; }
  echo "stub      $1"
}
stub memuse 4.2.3 'Sys.meminfo <- function() list(totalram = 1024 * as.numeric(gsub("[^0-9]", "", readLines("/proc/meminfo", 1))))
setClass("StubSize", slots = c(size = "numeric")); swap.unit <- function(x, unit) new("StubSize", size = x / 1e9)' # ParallelLogger: physical memory
stub pool 1.0.4     # ResultModelManager: result viewers only
stub ggdist 3.3.0   # EvidenceSynthesis: plots
stub HDInterval 0.2.4 'hdi <- function(x, credMass = 0.95, ...) { x <- sort(as.numeric(x)); n <- length(x); k <- max(1, floor(n * credMass)); w <- x[(k + 1):n] - x[1:(n - k)]; i <- which.min(w); c(lower = x[i], upper = x[i + k]) }'
stub meta 6.0.0     # EvidenceSynthesis: DerSimonian-Laird
beast() { # BeastJar for Bayesian synthesis: the classes that it calls, of the commit from which version 10.5.1 was made
  local git="$MIRRORS/beast-dev+beast-mcmc/repo" es="$MIRRORS/OHDSI+EvidenceSynthesis/repo" own="$MIRRORS/beast-dev+BeastJar/repo" b="$WORK/beast"
  [ -e "$LIBRARY/BeastJar/java/beast.jar" ] && { echo "present   BeastJar"; return; }
  if ! command -v javac >/dev/null || [ ! -d "$git" ] || [ ! -d "$es" ] || [ ! -d "$own" ]; then
    echo "STUB      BeastJar (needs javac and the mirrors of beast-mcmc, BeastJar and EvidenceSynthesis)"; stub BeastJar 10.5.1; return; fi
  mkdir -p "$b/BeastJar/inst/java" "$b/classes"
  git --git-dir="$git" archive 44ec219d2 src lib 2>/dev/null | tar -x -C "$b"
  git --git-dir="$es" archive v1.0.0 java 2>/dev/null | tar -x -C "$b"
  git --git-dir="$own" archive HEAD DESCRIPTION NAMESPACE R | tar -x -C "$b/BeastJar"
  (cd "$b/classes"; for l in jebl jdom commons-math-2.2 mtj colt beagle EJML-core-0.30 EJML-dense64-0.30 lbfgs4j-0.2.1; do jar xf "../lib/$l.jar"; done
  cd ../java/org/ohdsi/metaAnalysis
  javac -nowarn -Xlint:none -encoding UTF-8 --release 8 -cp "$b/lib/*" -sourcepath "$b/src:$b/java" -d "$b/classes" ../mcmc/Runner.java \
    {RobustMetaAnalysis,MetaAnalysis,NormalDataModel,SkewNormalDataModel,ParametricDataModel,ExtendingEmpiricalDataModel,GridWithGradientsDataModel,HalfNormalOnStdDevPrior}.java
  rm -rf "$b/classes/org/ohdsi" "$b/classes/META-INF"
  jar cf "$b/BeastJar/inst/java/beast.jar" -C "$b/classes" .)
  R CMD INSTALL --no-docs --no-multiarch -l "$LIBRARY" "$b/BeastJar" >"$WORK/log" 2>&1 || { cat "$WORK/log"; exit 1; }
  echo "installed BeastJar 10.5.1"
}
beast # EvidenceSynthesis: MCMC

# 3. From source: NAME TAG, in order of need. Edits are made in the unpacked copy:
#   - requirements of versions that Debian cannot meet are dropped where the code runs without;
#   - Debian's dbplyr 2.3.0 knows neither join_by("a", "b") between tables nor settings$field of an R6 object
#     within filter(): the former becomes c("a", "b"), the latter is evaluated first (!!);
#   - sums of integers are made floating point before a division in SQLite;
#   - Andromeda is the last version on SQLite; the later one's flushAndromeda() is added (nothing to flush).
source_of() { # OWNER NAME REF EDITS
  local owner=$1 name=$2 ref=$3 edit=${4:-} git="$MIRRORS/$1+$2/repo" want have
  if [ ! -d "$git" ] && [ -n "${FETCH:-}" ]; then git clone -q --bare "https://github.com/$owner/$name" "$git" || true; fi
  [ -d "$git" ] || { echo "ABSENT    $name (no mirror $owner+$name)"; return 0; }
  want=$(git --git-dir="$git" show "$ref:DESCRIPTION" | tr -d '\r' | sed -n 's/^Version: *//p')
  have=$(sed -n 's/^Version: *//p' "$LIBRARY/$name/DESCRIPTION" 2>/dev/null || true)
  if [ "$want" = "$have" ] && ! grep -q '^Title: Stub' "$LIBRARY/$name/DESCRIPTION"; then echo "present   $name $have"; return 0; fi
  mkdir -p "$WORK/$name"
  git --git-dir="$git" archive "$ref" | tar -x -C "$WORK/$name"
  (cd "$WORK/$name"; sed -i 's/\r$//' DESCRIPTION; eval "$edit")
  rm -rf "$WORK/$name/vignettes" "$WORK/$name/inst/doc" "$WORK/$name/tests"
  if R CMD INSTALL --no-docs --no-multiarch -l "$LIBRARY" "$WORK/$name" >"$WORK/$name.log" 2>&1
  then echo "installed $name $want"
  else echo "FAILED    $name $want"; tail -30 "$WORK/$name.log"; return 1; fi
}
older_dbplyr() {
  sed -i -E 's/join_by\(("[A-Za-z]+"(, *"[A-Za-z]+")*)\)/c(\1)/g' R/*.R
  sed -i -E 's/(== |%in% )((fitOutcomeModelArgs|createStudyPopulationArgs|createSccsIntervalDataArgs|createPsArgs|computeCovariateBalanceArgs)\$[A-Za-z]+)/\1!!\2/' R/*.R
  sed -i -E '/^ *(if|while|expect|checkmate)|[|&]{2}/s/!!((fitOutcomeModelArgs|createStudyPopulationArgs|createSccsIntervalDataArgs|createPsArgs|computeCovariateBalanceArgs)\$)/\1/' R/*.R
}
collect_eras() { # nor inequalities of join_by() between tables: the eras of one exposure are read first
  sed -i -E 's/, relationship = "many-to-many"//' R/*.R  # known to dplyr 1.1.1; vctrs of Debian allows 1.1.0
  sed -i -E 's/^(\s*)inner_join\(cases,$/\1collect() |>\n&/' R/Diagnostics.R R/Plots.R
}
float_division() { # SQLite divides integers as integers, DuckDB does not: only Balance.R does so in the database
  sed -i -E 's/\(\.data\$nInStratum \/ nTotal\)/(1.0 * .data$nInStratum \/ nTotal)/; s/sum\(\.data\$covariateValue, /sum(1.0 * .data$covariateValue, /; s/sum\(\.data\$covariateValue \*/sum(1.0 * .data$covariateValue */' R/Balance.R
}
loosen() { sed -i -E "s/\b($1) *\(>= *[0-9.]+\)/\1/" DESCRIPTION; }
source_of tidyverse dplyr v1.1.0
source_of OHDSI Andromeda v0.6.7.9999 'echo "flushAndromeda <- function(andromeda, evictCache = FALSE) invisible(NULL)" >>R/Object.R; echo "export(flushAndromeda)" >>NAMESPACE'
source_of OHDSI SqlRender "${SQLRENDER:-HEAD}"
source_of OHDSI ParallelLogger v3.5.1
source_of OHDSI DatabaseConnector v7.1.0
source_of OHDSI EmpiricalCalibration v3.1.4
source_of OHDSI Cyclops v3.7.0
source_of OHDSI FeatureExtraction v3.14.0 'loosen Andromeda'
source_of OHDSI CohortMethod v6.0.2 'older_dbplyr; float_division'
source_of OHDSI ResultModelManager v0.6.2
source_of OHDSI SelfControlledCaseSeries v6.1.4 'loosen Andromeda; older_dbplyr; collect_eras'
for extra in "CohortGenerator HEAD" "Characterization v2.2.0" "CohortIncidence v4.1.1" "EvidenceSynthesis v1.0.0"; do
  set -- $extra
  source_of OHDSI "$1" "$2" 'loosen Andromeda' || true
done
Rscript -e 'for (p in c("dplyr", "Andromeda", "SqlRender", "DatabaseConnector", "FeatureExtraction", "Cyclops", "CohortMethod", "SelfControlledCaseSeries")) { suppressPackageStartupMessages(library(p, character.only = TRUE)); cat(p, as.character(packageVersion(p)), "\n") }'
