# Writes survival.json: R's survival::coxph (survival 3.5-3, R 4.2.2) on one small data set with
# ties, late entry, strata and weights.   Rscript survival.R > survival.json
suppressMessages(library(survival))
set.seed(2)
n <- 80
x <- cbind(round(rnorm(n), 2), rbinom(n, 1, 0.4), round(runif(n), 2))
time <- ceiling(6 * rexp(n, exp(0.5 * x[, 1] - 0.5 * x[, 2]))) + 1
entry <- pmax(0, time - sample(1:8, n, TRUE))
event <- rbinom(n, 1, 0.7)
strata_ <- sample(c(3, 1, 7), n, TRUE)
w <- sample(c(0.5, 1, 2, 3), n, TRUE)
offset_ <- round(rnorm(n) / 3, 2)
json <- function(x) paste0("[", paste(sprintf("%.15g", x), collapse = ","), "]")
out <- c()
for (ties in c("efron", "breslow")) for (late in c(FALSE, TRUE)) for (str in c(FALSE, TRUE))
  for (weighted in c(FALSE, TRUE)) for (off in c(FALSE, TRUE)) {
  S <- if (late) Surv(entry, time, event) else Surv(time, event)
  f <- S ~ x
  if (str) f <- update(f, . ~ . + strata(strata_))
  if (off) f <- update(f, . ~ . + offset(offset_))
  ww <- if (weighted) w else rep(1, n)
  m <- coxph(f, weights = ww, ties = ties, robust = FALSE, control = coxph.control(eps = 1e-13, iter.max = 50))
  out <- c(out, sprintf(
    '  {"ties": "%s", "late": %s, "strata": %s, "weighted": %s, "offset": %s,\n   "coef": %s,\n   "se": %s, "log_likelihood": %.15g}',
    ties, tolower(late), tolower(str), tolower(weighted), tolower(off),
    json(coef(m)), json(sqrt(diag(m$var))), m$loglik[2]))
}
cat("{\n")
for (j in 1:3) cat(sprintf('"x%d": %s,\n', j - 1, json(x[, j])))
cat(sprintf('"time": %s,\n"entry": %s,\n"event": %s,\n"strata": %s,\n"w": %s,\n"offset": %s,\n',
    json(time), json(entry), json(event), json(strata_), json(w), json(offset_)))
cat('"fits": [\n'); cat(paste(out, collapse = ",\n")); cat("\n]}\n")
