# Reference numbers of R's survival package (3.5-3, R 4.2.2). Run in this folder:
#   Rscript reference.R
# Writes the data sets (lung, veteran, heart, mgus2: complete rows) and reference.csv with one
# number a line: check, row, column, value.
library(survival)
out <- data.frame()
keep <- function(check, x) {
  x <- as.matrix(x)
  rn <- if (is.null(rownames(x))) seq_len(nrow(x)) else rownames(x)
  cn <- if (is.null(colnames(x))) seq_len(ncol(x)) else colnames(x)
  out <<- rbind(out, data.frame(check = check, row = rep(rn, ncol(x)),
    column = rep(cn, each = nrow(x)), value = sprintf("%.15g", as.vector(x))))
}
lung <- na.omit(lung[, c("time", "status", "age", "sex", "ph.karno", "wt.loss")])
names(lung) <- c("time", "status", "age", "sex", "karno", "loss")
lung$status <- lung$status - 1
lung$w <- (seq_len(nrow(lung)) %% 4 + 1) / 2
lung$cl <- seq_len(nrow(lung)) %% 30
veteran <- with(veteran, data.frame(time, status, trt, karno, age, prior,
  celltype = as.integer(celltype)))
heart <- with(heart, data.frame(start, stop, event, age, year, surgery,
  transplant = as.integer(transplant) - 1, id))
m <- na.omit(mgus2[, c("age", "sex", "mspike", "hgb", "ptime", "pstat", "futime", "death")])
mgus2 <- with(m, data.frame(time = ifelse(pstat == 1, ptime, futime),
  code = ifelse(pstat == 1, 1, 2 * death), age, male = as.integer(sex == "M"), mspike, hgb))
set.seed(1)  # a version without ties, of every sixth person
few <- mgus2[seq(1, nrow(mgus2), 6), ]
few$time <- round(few$time + runif(nrow(few)), 6)
few$stratum <- rep(1:3, length.out = nrow(few))
for (name in c("lung", "veteran", "heart", "mgus2", "few"))
  write.csv(get(name), paste0(name, ".csv"), row.names = FALSE)

tight <- coxph.control(eps = 1e-12, toler.chol = 1e-13, iter.max = 50)
cox <- function(check, formula, data, wt = rep(1, nrow(data))) {
  data$wt <- wt
  environment(formula) <- environment()
  for (ties in c("efron", "breslow")) {
    name <- paste(check, ties)
    fit <- coxph(formula, data, ties = ties, weights = wt, x = TRUE, y = TRUE,
      control = tight, robust = FALSE)
    keep(paste(name, "coef"), coef(fit))
    keep(paste(name, "vcov"), if (is.null(fit$naive.var)) fit$var else fit$naive.var)
    keep(paste(name, "loglik"), fit$loglik[2])
    keep(paste(name, "concordance"), concordance(fit)$concordance)
    base <- basehaz(fit, centered = FALSE)
    names(base)[names(base) == "strata"] <- "stratum"
    base$stratum <- if (is.null(base$stratum)) 1 else as.integer(base$stratum)
    keep(paste(name, "basehaz"), base[seq(5, nrow(base), 9), ])
    for (tr in c("km", "identity", "log", "rank"))
      keep(paste(name, "zph", tr), cox.zph(fit, transform = tr, terms = FALSE)$table)
  }
}
robust <- function(check, formula, data, wt = rep(1, nrow(data)), cl = seq_len(nrow(data))) {
  data$wt <- wt
  data$cl <- cl
  environment(formula) <- environment()
  for (ties in c("efron", "breslow")) {
    fit <- coxph(formula, data, ties = ties, weights = wt, cluster = cl, control = tight)
    keep(paste(check, ties, "robust"), fit$var)
  }
}
cox("lung", Surv(time, status) ~ age + sex + karno + loss, lung)
cox("lung strata", Surv(time, status) ~ age + karno + loss + strata(sex), lung)
cox("lung weights", Surv(time, status) ~ age + sex + karno + loss, lung, wt = lung$w)
cox("veteran", Surv(time, status) ~ trt + karno + age + prior, veteran)
cox("veteran strata", Surv(time, status) ~ trt + karno + age + prior + strata(celltype), veteran)
cox("heart", Surv(start, stop, event) ~ age + year + surgery + transplant, heart)
cox("heart strata", Surv(start, stop, event) ~ age + year + transplant + strata(surgery), heart)
robust("lung", Surv(time, status) ~ age + sex + karno + loss, lung)
robust("lung weights", Surv(time, status) ~ age + sex + karno + loss, lung, wt = lung$w)
robust("lung strata", Surv(time, status) ~ age + karno + loss + strata(sex), lung)
robust("lung cluster", Surv(time, status) ~ age + sex + karno + loss, lung, cl = lung$cl)
robust("heart cluster", Surv(start, stop, event) ~ age + year + surgery + transplant, heart,
  cl = heart$id)
robust("heart strata", Surv(start, stop, event) ~ age + year + transplant + strata(surgery), heart)

# Step functions by explicit start-stop rows
cut <- survSplit(Surv(time, status) ~ ., veteran, cut = c(60, 120), episode = "q")
fit <- coxph(Surv(tstart, time, status) ~ trt + karno:strata(q) + age, cut, control = tight)
keep("veteran steps coef", coef(fit))
keep("veteran steps vcov", fit$var)
new <- coxph(Surv(time, status) ~ trt + karno + age, veteran, control = tight)
curve <- survfit(new, newdata = data.frame(trt = c(1, 2), karno = c(40, 80), age = c(50, 60)))
keep("veteran curve", summary(curve, times = c(10, 50, 100, 200))$surv)

# Fine and Gray
fg <- function(check, data, formula, x, ...) {
  data$etime <- data$time
  data$event <- factor(data$code, 0:2)
  expanded <- finegray(formula, data, ...)
  f <- as.formula(paste("Surv(fgstart, fgstop, fgstatus) ~", x))
  environment(f) <- environment()
  fit <- coxph(f, expanded, weights = fgwt, ties = "breslow", control = tight)
  keep(paste(check, "coef"), coef(fit))
  keep(paste(check, "vcov"), if (is.null(fit$naive.var)) fit$var else fit$naive.var)
  keep(paste(check, "loglik"), fit$loglik[2])
  new <- data.frame(age = c(60, 80), male = c(0, 1), mspike = c(1, 2), hgb = c(13, 12))
  if (!grepl("strata", x)) {
    curve <- survfit(fit, newdata = new)
    keep(paste(check, "incidence"), 1 - summary(curve, times = c(12, 60, 120, 240))$surv)
  }
}
fg("mgus2 1", mgus2, Surv(etime, event) ~ age + male + mspike + hgb, "age + male + mspike + hgb")
fg("mgus2 2", mgus2, Surv(etime, event) ~ age + male + mspike + hgb, "age + male + mspike + hgb",
  etype = "2")
fg("few 1", few, Surv(etime, event) ~ age + male + mspike + hgb, "age + male + mspike + hgb")
fg("few strata 1", few, Surv(etime, event) ~ age + male + mspike + hgb + strata(stratum) + stratum,
  "age + male + mspike + hgb + strata(stratum)")
write.csv(out, "reference.csv", row.names = FALSE, quote = FALSE)
