# Numbers of R's survival package (3.5-3, R 4.2.2) where people enter late: mgus2.csv and few.csv
# by age. Run in this folder: Rscript late_entry.R
# Writes late_entry.csv with one number a line: check, row, column, value.
library(survival)
out <- data.frame()
keep <- function(check, x) {
  x <- as.matrix(x)
  rn <- if (is.null(rownames(x))) seq_len(nrow(x)) else rownames(x)
  cn <- if (is.null(colnames(x))) seq_len(ncol(x)) else colnames(x)
  out <<- rbind(out, data.frame(check = check, row = rep(rn, ncol(x)),
    column = rep(cn, each = nrow(x)), value = sprintf("%.15g", as.vector(x))))
}
tight <- coxph.control(eps = 1e-12, toler.chol = 1e-13, iter.max = 50)
fg <- function(check, d, cause, x = "male + mspike + hgb", by = "") {
  d$id <- seq_len(nrow(d))
  d$event <- factor(d$code, 0:2)
  f <- as.formula(paste("Surv(entry, end, event) ~ male + mspike + hgb + id", by))
  expanded <- finegray(f, d, id = id, etype = cause, timefix = FALSE)
  f <- as.formula(paste("Surv(fgstart, fgstop, fgstatus) ~", x))
  fit <- coxph(f, expanded, weights = fgwt, ties = "breslow", control = tight)
  keep(paste(check, "coef"), coef(fit))
  keep(paste(check, "vcov"), if (is.null(fit$naive.var)) fit$var else fit$naive.var)
  keep(paste(check, "loglik"), fit$loglik[2])
  if (by == "") {
    new <- data.frame(male = c(0, 1), mspike = c(1, 2), hgb = c(13, 12))
    keep(paste(check, "incidence"), 1 - summary(survfit(fit, newdata = new), times = ages)$surv)
  }
}
ages <- c(55, 65, 75, 85) * 12
late <- function(d) within(d, { entry <- age * 12; end <- entry + time })
months <- late(read.csv("mgus2.csv"))  # entries, censorings and events at equal times
few <- late(read.csv("few.csv"))  # of which only entries are tied
few <- few[few$age >= 62, ]  # before, nobody is there at times: weights are infinite
fg("late months 1", months, "1")
fg("late months 2", months, "2")
fg("late few 1", few, "1")
fg("late few strata 1", few, "1", "male + mspike + hgb + strata(stratum)",
  "+ strata(stratum) + stratum")
write.csv(out, "late_entry.csv", row.names = FALSE, quote = FALSE)
