# Reference numbers of R's survival package (3.5-3, R 4.2.2) for what is looked at after a fit.
# Run in this folder, after reference.R, whose data sets it reads:
#   Rscript diagnostics.R
# Writes diagnostics.csv with one number a line: check, row, column, value.
library(survival)
out <- data.frame()
keep <- function(check, x) {
  x <- as.matrix(x)
  cn <- if (is.null(colnames(x))) seq_len(ncol(x)) else colnames(x)
  out <<- rbind(out, data.frame(check = check, row = rep(seq_len(nrow(x)), ncol(x)),
    column = rep(cn, each = nrow(x)), value = sprintf("%.12g", as.vector(x))))
}
lung <- read.csv("lung.csv")
heart <- read.csv("heart.csv")
veteran <- read.csv("veteran.csv")
few <- read.csv("few.csv")
tight <- coxph.control(eps = 1e-12, toler.chol = 1e-13, iter.max = 50)
every <- function(x) { x <- as.matrix(x); x[seq(1, nrow(x), 11), , drop = FALSE] }
few$event <- factor(few$code, 0:2)
few$id <- seq_len(nrow(few))
expanded <- finegray(Surv(time, event) ~ age + male + mspike + hgb + id, few)

# Residuals, of every eleventh row or event
for (ties in c("efron", "breslow")) {
  fits <- list(
    "lung weights" = coxph(Surv(time, status) ~ age + sex + karno + loss, lung, weights = w,
      ties = ties, control = tight, x = TRUE, robust = FALSE),
    "veteran strata" = coxph(Surv(time, status) ~ trt + karno + age + prior + strata(celltype),
      veteran, ties = ties, control = tight, x = TRUE),
    "heart" = coxph(Surv(start, stop, event) ~ age + year + surgery + transplant, heart,
      ties = ties, control = tight, x = TRUE))
  for (k in names(fits))
    for (type in c("martingale", "deviance", "score", "dfbeta", "schoenfeld", "scaledsch"))
      keep(paste(k, ties, type), every(residuals(fits[[k]], type = type)))
}
fg <- coxph(Surv(fgstart, fgstop, fgstatus) ~ age + male + mspike + hgb, expanded, weights = fgwt,
  ties = "breslow", control = tight, x = TRUE, robust = FALSE)
keep("few martingale",
  every(residuals(fg, type = "martingale", weighted = TRUE, collapse = expanded$id)))
keep("few schoenfeld", every(residuals(fg, type = "schoenfeld")))

# Concordance and its standard error
pairs <- function(check, fit, ...) {
  c <- concordance(fit, ...)
  keep(paste(check, "concordance se"), c(c$concordance, sqrt(c$var)))
}
pairs("lung", coxph(Surv(time, status) ~ age + sex + karno + loss, lung, control = tight))
pairs("lung weights",
  coxph(Surv(time, status) ~ age + sex + karno + loss, lung, weights = w, control = tight))
pairs("lung strata",
  coxph(Surv(time, status) ~ age + karno + loss + strata(sex), lung, control = tight))
pairs("veteran strata", coxph(Surv(time, status) ~ trt + karno + age + prior + strata(celltype),
  veteran, control = tight))
fit <- coxph(Surv(start, stop, event) ~ age + year + surgery + transplant, heart, control = tight)
pairs("heart", fit)
pairs("heart cluster", fit, cluster = heart$id)
pairs("heart strata", coxph(Surv(start, stop, event) ~ age + year + transplant + strata(surgery),
  heart, control = tight))

# Curves without covariates
middle <- function(check, fit) {
  keep(paste(check, "median"), summary(fit)$table[c("median", "0.95LCL", "0.95UCL")])
}
ll <- "log-log"
middle("lung", survfit(Surv(time, status) ~ 1, lung, conf.type = ll))
middle("lung weights", survfit(Surv(time, status) ~ 1, lung, weights = round(2 * w),
  conf.type = ll, robust = FALSE))
heart_curve <- survfit(Surv(start, stop, event) ~ 1, heart, conf.type = ll)
middle("heart", heart_curve)
for (s in 1:2)
  middle(paste("lung sex", s),
    survfit(Surv(time, status) ~ 1, lung[lung$sex == s, ], conf.type = ll))
middle("level", survfit(Surv(1:4, c(1, 1, 1, 1)) ~ 1, conf.type = ll))
middle("level to the end", survfit(Surv(1:4, c(1, 1, 0, 0)) ~ 1, conf.type = ll))
for (s in c(200, 500))
  keep(paste("lung rmean", s),
    summary(survfit(Surv(time, status) ~ 1, lung), rmean = s)$table[c("rmean", "se(rmean)")])
curve <- summary(heart_curve, times = c(10, 50, 200, 800))
keep("heart curve", cbind(surv = curve$surv, se = curve$std.err, lower = curve$lower,
  upper = curve$upper))
test <- function(check, s) keep(paste(check, "logrank"), s$chisq)
test("lung", survdiff(Surv(time, status) ~ sex, lung))
test("veteran", survdiff(Surv(time, status) ~ celltype, veteran))
test("veteran strata", survdiff(Surv(time, status) ~ celltype + strata(trt), veteran))
mgus2 <- read.csv("mgus2.csv")
mgus2$event <- factor(mgus2$code, 0:2)
at <- c(12, 60, 120, 240)
curve <- summary(survfit(Surv(time, event) ~ 1, mgus2), times = at)
keep("mgus2 incidence", curve$pstate[, 2:3])
keep("mgus2 incidence se", curve$std.err[, 2:3])
library(cmprsk)
gray <- timepoints(cuminc(mgus2$time, mgus2$code), at)
keep("mgus2 cuminc", t(gray$est))
keep("mgus2 cuminc se", t(sqrt(gray$var)))

# Curves of people after a fit
at <- list("lung weights" = c(50, 200, 600), "veteran strata" = c(10, 50, 150),
  "heart" = c(10, 50, 400))
for (ties in c("efron", "breslow")) {
  fits <- list(
    "lung weights" = coxph(Surv(time, status) ~ age + sex + karno + loss, lung, weights = w,
      ties = ties, control = tight, x = TRUE, y = TRUE, robust = FALSE),
    "veteran strata" = coxph(Surv(time, status) ~ trt + karno + age + prior + strata(celltype),
      veteran, ties = ties, control = tight, x = TRUE, y = TRUE),
    "heart" = coxph(Surv(start, stop, event) ~ age + year + surgery + transplant, heart,
      ties = ties, control = tight, x = TRUE, y = TRUE))
  for (k in names(fits)) {
    new <- list("lung weights" = lung, "veteran strata" = veteran, "heart" = heart)[[k]][c(1, 40, 90), ]
    for (i in 1:3) {
      curve <- summary(survfit(fits[[k]], newdata = new[i, ], conf.type = "log-log"),
        times = at[[k]])
      keep(paste(k, ties, "curve", i), cbind(survival = curve$surv, se = curve$std.err,
        lower = curve$lower, upper = curve$upper))
    }
  }
}

write.csv(out, "diagnostics.csv", row.names = FALSE, quote = FALSE)
