# Reproduce documented differences of models on small tables: Rscript documented_models.R FOLDER
# Reads strata.csv, counts.csv, risks.csv and cases.csv of FOLDER; writes models.csv there: a statement and R's number, as text.
suppressMessages({library(CohortMethod); library(Cyclops); library(survival)})
invisible(ParallelLogger::clearLoggers())
folder <- commandArgs(TRUE)[1]
options(andromedaTempFolder = file.path(folder, "andromeda"))
read <- function(name) read.csv(file.path(folder, name))
said <- NULL
say <- function(what, ...) said <<- rbind(said, data.frame(what = what, R = paste(sapply(list(...), function(x)
  if (is.numeric(x)) sprintf("%.4f", x) else as.character(x)), collapse = " ")))
control <- createControl(noiseLevel = "silent", tolerance = 1e-11, maxIterations = 20000, convergenceType = "gradient")
none <- createPrior("none")

# CohortMethod's outcome models of 40 people in two strata.
toy <- read("strata.csv")
toy$personSeqId <- toy$rowId
toy$timeAtRisk <- toy$survivalTime
careful <- createControl(noiseLevel = "silent", tolerance = 1e-10, maxIterations = 10000)
model <- function(people, ..., data = NULL, control = careful) {
  attr(people, "metaData") <- list()
  suppressWarnings(suppressMessages(fitOutcomeModel(people, data, createFitOutcomeModelArgs(..., control = control))))
}
limits <- function(m) c(m$outcomeModelTreatmentEstimate$logLb95, m$outcomeModelTreatmentEstimate$logUb95)
weighted <- limits(model(toy, modelType = "cox", inversePtWeighting = TRUE))
say("weighted model: limits", weighted[1], weighted[2])
copies <- toy[rep(seq_len(nrow(toy)), toy$iptw), ]
copies$rowId <- copies$personSeqId <- seq_len(nrow(copies))
repeated <- limits(model(copies, modelType = "cox"))
say("weights as counts of people: limits", repeated[1], repeated[2])
crude <- model(toy, modelType = "cox", control = createControl(noiseLevel = "silent"))
at <- function(b) coxph(Surv(survivalTime, outcomeCount) ~ offset(b * treatment), toy, ties = "breslow")$loglik[1]
top <- coxph(Surv(survivalTime, outcomeCount) ~ treatment, toy, ties = "breslow")$loglik[2]
say("limits: the log-likelihood is lower by", sprintf("%.7f %.7f", top - at(limits(crude)[1]), top - at(limits(crude)[2])))
profile <- crude$logLikelihoodProfile$point
say("profile: range of ratios", exp(min(profile)), exp(max(profile)))
spared <- transform(toy, outcomeCount = outcomeCount * (1 - treatment))
for (kind in c("cox", "logistic", "poisson")) {
  m <- model(spared, modelType = kind)
  say(paste("no events in an arm:", kind), m$outcomeModelTreatmentEstimate$logRr, limits(m)[1], limits(m)[2])
}
say("logistic strata", model(toy, modelType = "logistic", stratified = TRUE)$outcomeModelTreatmentEstimate$logRr)
say("logistic strata: Breslow", coef(clogit(outcomeCount ~ treatment + strata(stratumId), toy, method = "breslow")))
say("logistic strata: exact", coef(clogit(outcomeCount ~ treatment + strata(stratumId), toy, method = "exact")))
known <- Andromeda::andromeda(cohorts = toy, outcomes = toy[, c("rowId", "outcomeCount")], covariates = data.frame(rowId = toy$rowId[toy$x == 1], covariateId = 1002, covariateValue = 1),
  covariateRef = data.frame(covariateId = 1002, covariateName = "x", analysisId = 1), analysisRef = data.frame(analysisId = 1, isBinary = "Y", missingMeansZero = "Y"))
class(known) <- "CohortMethodData"
attr(class(known), "package") <- "CohortMethod"
attr(known, "metaData") <- list(populationSize = nrow(toy))
with_x <- model(toy, modelType = "cox", useCovariates = TRUE, prior = createPrior("laplace", variance = 5), data = known)$outcomeModelTreatmentEstimate
say("covariates: log ratio", with_x$logRr)
say("covariates: likelihood ratio", with_x$llr)
say("covariates: likelihood ratio without penalties", with_x$llr)
absent <- model(toy, modelType = "cox", interactionCovariateIds = 9999, data = known)
say("an interaction with a covariate that nobody has", absent$outcomeModelTreatmentEstimate$logRr, if (is.null(absent$outcomeModelInteractionEstimates)) "none" else "some")
attr(toy, "metaData") <- list()
shrinking <- function(...) suppressWarnings(suppressMessages(createPs(known, toy, createCreatePsArgs(..., prior = createPrior("laplace", variance = 5, exclude = 0), control = careful))))
say("scores of a model of a covariate that nobody has", unique(shrinking(includeCovariateIds = 9999)$propensityScore))
say("matched people, exact on a covariate that nobody has", nrow(suppressMessages(matchOnPs(shrinking(), createMatchOnPsArgs(matchCovariateIds = 9999), known))),
  nrow(suppressMessages(matchOnPs(shrinking(), createMatchOnPsArgs(), known))))
curve <- CohortMethod:::prepareKaplanMeier(transform(toy, stratumId = NULL, survivalTime = ifelse(treatment == 1, pmin(survivalTime, 30), survivalTime)))
say("last day of the targets' curve", max(curve$time[curve$treatment == 1]))

# Calibration by negative controls.
controls <- function(n) data.frame(trueEffectSize = c(rep(1, n), NA), logRr = c(seq(-0.2, 0.5, length.out = n), 0.4), seLogRr = 0.2, unblindForCalibration = TRUE)
calibrated <- function(n) CohortMethod:::calibrateGroup(controls(n))$calibratedP[n + 1]
say("calibrated p-value of four controls", calibrated(4))
set.seed(1); first <- calibrated(12); set.seed(2); second <- calibrated(12)
say("calibrated p-value of twelve controls, twice", if (first == second) "equal" else "different")
say("time transform of cox.zph", eval(formals(cox.zph)$transform))

# Cyclops: weights and constants of conditional models, least squares, profiles, ties.
d <- read("counts.csv")
cpr <- function(d, weights = NULL) {
  outcomes <- d[, c("rowId", "stratumId", "y", "time")]
  outcomes$weights <- weights
  data <- convertToCyclopsData(outcomes, data.frame(rowId = d$rowId, stratumId = d$stratumId, covariateId = 1, covariateValue = d$x), modelType = "cpr", addIntercept = FALSE, quiet = TRUE)
  fitCyclopsModel(data, prior = none, control = control)
}
say("weights within strata", coef(cpr(d, d$w)))
rows <- d[rep(seq_len(nrow(d)), d$w), ]
rows$rowId <- seq_len(nrow(rows))
say("weights within strata: rows repeated", coef(cpr(rows)))
same <- cpr(d, 1 + d$stratumId %% 3)
s <- 1 + d$stratumId %% 3
say("one weight for each stratum", coef(same))
say("one weight for each stratum: log-likelihood", same$log_likelihood)
say("one weight for each stratum: log-likelihood less the sum of w y log w, without log y!", same$log_likelihood - sum(s * d$y * log(s)) + sum(s * lgamma(d$y + 1)))
say("cpr: log-likelihood", cpr(d)$log_likelihood)
say("cpr: log-likelihood without log y!", cpr(d)$log_likelihood + sum(lgamma(d$y + 1)))
ls <- function(prior) fitCyclopsModel(createCyclopsData(y ~ x - 1, data = d, modelType = "ls"), prior = prior, control = control)
say("ls: log-likelihood is minus the sum of squares", ls(none)$log_likelihood)
say("ls: Laplace prior, a quarter of the variance", coef(ls(createPrior("laplace", variance = 0.01))))
say("ls: normal prior, half the variance", coef(ls(createPrior("normal", variance = 0.01))))
say("cox: tied events", coef(fitCyclopsModel(createCyclopsData(Surv(time, y > 0) ~ x, data = d, modelType = "cox"), prior = none, control = control)))
lr <- function(exclude) suppressWarnings(fitCyclopsModel(createCyclopsData((y > 0) + 0 ~ x, data = d, modelType = "lr"), prior = createPrior("normal", variance = 0.1, exclude = exclude), control = control))
say("lr: the intercept without exclude", coef(lr(c()))[1])
say("profile with the penalty: at 1 less at 0", diff(getCyclopsProfileLogLikelihood(lr("(Intercept)"), "x", x = c(0, 1))$value))
say("profile without the penalty: at 1 less at 0", diff(getCyclopsProfileLogLikelihood(lr("(Intercept)"), "x", x = c(0, 1), includePenalty = FALSE)$value))

# Fine-Gray models: ties between events and censored times, and weights of censoring in folds.
e <- read("risks.csv")
weights_of <- getFineGrayWeights(e$time, e$event)
fgr <- function(weights = NULL) fitCyclopsModel(createCyclopsData(weights_of$surv ~ x, data = e, modelType = "fgr", censorWeights = weights_of$weights), prior = none, control = control, weights = weights)
say("fgr: ties of events and censored times", coef(fgr()))
fine <- function(rows) finegray(Surv(time, factor(event, 0:2)) ~ ., data = transform(e, id = seq_len(nrow(e)))[rows, ], etype = 1)
fine_coef <- function(f, train) coef(coxph(Surv(fgstart, fgstop, fgstatus) ~ x, weights = fgwt, data = f[f$id %in% train, ], ties = "breslow"))
say("fgr: ties by finegray", fine_coef(fine(TRUE), seq_len(nrow(e))))
e$time <- e$time + 0.1 * (e$event == 0)
weights_of <- getFineGrayWeights(e$time, e$event)
train <- c(1, 1, 0, 1, 1, 0, 1, 1)
say("fgr: a fold without two censored people", coef(fgr(train)))
say("fgr: the same with weights of everybody", fine_coef(fine(TRUE), which(train == 1)))
say("fgr: the same with weights of the fold", fine_coef(fine(train == 1), which(train == 1)))

# Held-out log-likelihoods: of logistic and Fine-Gray models, and exact conditional likelihoods.
y <- c(1, 0, 1, 1, 0, 0, 1, 0); x <- c(0.5, -1, 1.2, 0.3, -0.4, 0.8, -0.2, -0.9); train <- c(1, 1, 1, 1, 1, 1, 0, 0)
fit <- fitCyclopsModel(createCyclopsData(y ~ x, modelType = "lr"), prior = createPrior("normal", variance = 1, exclude = "(Intercept)"), weights = train)
say("lr: held-out log-likelihood", Cyclops:::.cyclopsGetNewPredictiveLogLikelihood(fit$interface, 1 - train))
event <- c(0, 1, 2, 1, 1, 2, 1, 1)
fit <- fitCyclopsModel(convertToCyclopsData(data.frame(rowId = 1:8, y = event, time = 9:2), data.frame(rowId = 1:8, covariateId = 1, covariateValue = x), modelType = "fgr", quiet = TRUE),
  prior = createPrior("normal", variance = 1), control = control)
say("fgr: log-likelihood of everybody", fit$log_likelihood)
say("fgr: held-out log-likelihood of everybody", Cyclops:::.cyclopsGetNewPredictiveLogLikelihood(fit$interface, rep(1, 8)))
d <- read("cases.csv")
for (kind in c("clr", "clr_exact", "clr_efron"))
  say(paste("log-likelihood of", kind), fitCyclopsModel(createCyclopsData(y ~ x + strata(s), data = d, modelType = kind), control = control)$log_likelihood)
for (method in c("exact", "efron"))
  say(paste("log-likelihood of clogit:", method), as.numeric(logLik(clogit(y ~ x + strata(s), d, method = method))))
write.csv(said, file.path(folder, "models.csv"), row.names = FALSE)
