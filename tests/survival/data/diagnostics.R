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

write.csv(out, "diagnostics.csv", row.names = FALSE, quote = FALSE)
