// Charts above the tables, drawn from the rows that the table shows.
"use strict";

const Charts = (() => {
  const TARGET = "var(--target)";
  const COMPARATOR = "var(--comparator)";
  // Standardised differences above it count as imbalance.
  const IMBALANCE = Number(document.getElementById("views").dataset.imbalance);
  const MOST_LINES = 60;
  const MOST_DOTS = 4000;
  const ARMS = [["target", TARGET], ["comparator", COMPARATOR]];

  // Return the names of columns in which rows differ, to label them.
  function varying(rows, names) {
    return names.filter((name) => new Set(rows.map((row) => row[name] ?? "")).size > 1);
  }

  function labels(rows, names) {
    const differing = varying(rows, names);
    return rows.map((row) => differing.map((name) => row[name]).filter(Boolean).join(" · "));
  }

  // Split rows by the values of columns, in their order.
  function split(rows, names) {
    const parts = new Map();
    for (const row of rows) {
      const key = names.map((name) => row[name] ?? "").join("~");
      if (!parts.has(key)) parts.set(key, []);
      parts.get(key).push(row);
    }
    return [...parts.values()];
  }

  const RESULT = ["database", "target_comparator_id", "exposures_outcome_set_id", "outcome_id",
    "analysis_id", "covariate_id", "performance_id"];
  // Coefficients of a model are drawn together.
  const MODEL = RESULT.filter((name) => name !== "covariate_id");
  const NAMES = ["database", "target", "comparator", "exposure", "outcome", "analysis",
    "covariate", "level", "period", "covariate_name", "method", "design", "evaluation"];

  function title(rows, database = true) {
    const first = rows[0];
    const pair = first.exposure ?? [first.target, first.comparator].filter(Boolean).join(" against ");
    return [pair, first.outcome, first.analysis, first.design, database && first.database].filter(Boolean).join(" · ");
  }

  // Shorten a label, the longest of its parts first, so that labels remain distinct.
  function fitted(text, most) {
    const parts = text.split(" · ");
    while (parts.join(" · ").length > most) {
      const lengths = parts.map((part) => part.length);
      const longest = lengths.indexOf(Math.max(...lengths));
      if (lengths[longest] < 5) break;
      parts[longest] = `${parts[longest].replace(/…$/, "").slice(0, -1)}…`;
    }
    return parts.join(" · ");
  }

  // Draw marks as an image with a label; the table has its numbers.
  function plot(options) {
    const node = Plot.plot({
      width: 760, marginTop: 28, marginBottom: 44, style: { background: "transparent", fontSize: "12px", overflow: "visible" }, ...options,
    });
    node.setAttribute("role", "img");
    for (const part of node.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
    return node;
  }

  const TICKS = [[0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 10, 20, 50],
    [0.1, 0.25, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 4], [0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5]];

  // Return round ratios between two limits, four of them or more if there are as many, whose labels do
  // not overlap; one is always among them.
  function ratioTicks(low, high) {
    const inside = TICKS.map((ticks) => ticks.filter((x) => x >= low && x <= high));
    const ticks = inside.find((found) => found.length > 3) ?? inside[2];
    const apart = Math.log(high / low) / 9;
    const kept = [];
    for (const x of [...ticks].sort((a, b) => (b === 1) - (a === 1))) {
      if (kept.every((other) => Math.abs(Math.log(x / other)) >= apart)) kept.push(x);
    }
    return kept.sort((a, b) => a - b);
  }

  // The axis of ratios, on a log scale.
  const ratioAxis = (low, high, label) => ({ type: "log", label, grid: true, domain: [low, high],
    ticks: ratioTicks(low, high), tickFormat: (x) => String(x) });

  function forest(rows) {
    const known = rows.filter((row) => row.rr > 0 && row.ci_95_lb !== null);
    if (!known.length) return null;
    const drawn = known.slice(0, MOST_LINES);
    const texts = labels(drawn, NAMES);
    const lines = drawn.map((row, n) => ({ ...plain(row), line: n, text: texts[n] || title([row], false) }));
    const finite = lines.flatMap((d) => [d.rr, d.ci_95_lb, d.ci_95_ub])
      .filter((x) => x > 0 && Number.isFinite(x));
    const low = Math.max(Math.min(...finite, 0.8), 0.02);
    const high = Math.min(Math.max(...finite, 1.25), 50);
    const clip = (x) => Math.min(Math.max(x > 0 ? x : low, low), high);
    const longest = Math.max(...lines.map((d) => d.text.length));
    const left = Math.min(600, 24 + 6.4 * longest);
    const said = (d) => `${Values.shown("ratio", d.rr)} (${Values.shown("ratio", d.ci_95_lb)}–`
      + `${Values.shown("ratio", d.ci_95_ub)})`;
    const right = Math.max(130, 20 + 7 * Math.max(...lines.map((d) => said(d).length)));
    const kinds = new Set(rows.filter((row) => !row.combined).map((row) => row.kind));
    const kind = kinds.size === 1 ? [...kinds][0] : "ratio";
    const node = plot({
      width: left + 290 + right, height: 74 + 20 * lines.length, marginLeft: left, marginRight: right,
      ariaLabel: `Forest plot of ${lines.length} estimates`,
      x: ratioAxis(low * 0.95, high * 1.05, kind ?? "ratio"),
      y: { type: "point", domain: lines.map((d) => d.line), label: null, tickSize: 0, padding: 0.5,
        tickFormat: (n) => fitted(lines[n].text, 90) },
      marks: [
        Plot.ruleX([1], { stroke: "currentColor", strokeOpacity: 0.6 }),
        Plot.ruleY(lines, { y: "line", x1: (d) => clip(d.ci_95_lb), x2: (d) => clip(d.ci_95_ub),
          stroke: (d) => (d.combined ? COMPARATOR : TARGET), strokeWidth: 2 }),
        Plot.dot(lines, { y: "line", x: (d) => clip(d.rr), r: 4,
          symbol: (d) => (d.combined ? "diamond" : "circle"),
          fill: (d) => (d.combined ? COMPARATOR : TARGET) }),
        Plot.text(lines, { y: "line", frameAnchor: "right", dx: right - 6, textAnchor: "end", text: said }),
      ],
    });
    const more = known.length > drawn.length ? ` The first ${drawn.length} of ${known.length}.` : "";
    const none = rows.length - known.length;
    return { node, caption: `Estimates with 95% limits.${more}`
      + (none ? ` ${none === 1 ? "1 row has" : `${none} rows have`} no estimate that is shown.` : "") };
  }

  function controls(rows) {
    const known = rows.filter((row) => row.role !== "of interest" && row.se_log_rr > 0 && row.rr > 0);
    if (!known.length) return null;
    const most = Math.max(...known.map((row) => row.se_log_rr)) * 1.1;
    const reach = Math.max(2, ...known.map((row) => Math.max(row.rr, 1 / row.rr))) * 1.1;
    const lines = [-1, 1].flatMap((sign) => [0, 0.25, 0.5, 0.75, 1].map((part) => (
      { sign, se: part * most, rr: Math.exp(sign * 1.96 * part * most) }
    ))).filter((d) => d.rr < reach && d.rr > 1 / reach);
    const node = plot({
      height: 340, ariaLabel: `Estimates of ${known.length} controls and their standard errors`,
      x: ratioAxis(1 / reach, reach, "estimate"),
      y: { domain: [0, most], label: "standard error", grid: true },
      marks: [
        Plot.ruleX([1], { stroke: "currentColor", strokeOpacity: 0.6 }),
        Plot.line(lines, { x: "rr", y: "se", z: "sign", stroke: "currentColor", strokeDasharray: "4 3" }),
        Plot.dot(known, { x: "rr", y: "se_log_rr", fill: TARGET, fillOpacity: 0.7, r: 3.5,
          title: (d) => `${d.outcome}\n${d.analysis}, ${d.database}` }),
      ],
    });
    return { node, caption: `${known.length} estimates of controls. Dashed: below it, an estimate `
      + "differs significantly from one." };
  }

  function balance(rows) {
    const known = rows.filter((row) => row.std_diff_before !== null && row.std_diff_after !== null);
    if (!known.length) return null;
    const sizes = Float64Array.from(known, (row) => Math.abs(row.std_diff_after)).sort();
    const least = sizes[Math.max(sizes.length - MOST_DOTS, 0)];
    const drawn = known.filter((row) => Math.abs(row.std_diff_after) >= least).slice(0, MOST_DOTS)
      .map((row) => ({ covariate: row.covariate, before: Math.abs(row.std_diff_before),
        after: Math.abs(row.std_diff_after) }));
    const most = drawn.reduce((x, d) => Math.max(x, d.before, d.after), 1.2 * IMBALANCE) * 1.05;
    const over = sizes.filter((x) => x > IMBALANCE).length;
    const node = plot({
      width: 460, height: 420, ariaLabel: `Standardised differences of ${known.length} covariates`,
      x: { domain: [0, most], label: "difference before (absolute)", grid: true },
      y: { domain: [0, most], label: "difference after", grid: true },
      marks: [
        Plot.link([0], { x1: 0, y1: 0, x2: most, y2: most, stroke: "currentColor", strokeDasharray: "4 3" }),
        Plot.ruleY([IMBALANCE], { stroke: "currentColor", strokeDasharray: "2 3" }),
        Plot.dot(drawn, { x: "before", y: "after", fill: TARGET, fillOpacity: 0.55, r: 3,
          title: (d) => d.covariate }),
      ],
    });
    const more = known.length > drawn.length ? ` Drawn: the ${MOST_DOTS.toLocaleString("en-US")} largest after.` : "";
    return { node, caption: `${known.length.toLocaleString("en-US")} covariates with both differences; `
      + `${over.toLocaleString("en-US")} exceed ${IMBALANCE} after adjustment.${more}` };
  }

  // Draw small multiples of the first results among rows.
  function multiples(rows, draw, what, most = 4, names = RESULT) {
    const parts = split(rows, names);
    const figure = document.createElement("div");
    figure.className = "multiples";
    for (const rowsOfPart of parts.slice(0, most)) {
      const part = rowsOfPart.map(plain);
      const node = draw(part);
      if (!node) continue;
      const own = document.createElement("figure");
      const caption = document.createElement("figcaption");
      caption.textContent = title(part);
      own.append(node, caption);
      figure.append(own);
    }
    if (!figure.childElementCount) return null;
    const more = parts.length > most ? `The first ${most} of ${parts.length} results; choose above for others.` : "";
    return { node: figure, caption: `${what} ${more}`.trim() };
  }

  const KEY = "Blue: target; orange: comparator.";

  function scores(rows) {
    return multiples(rows, (part) => plot({
      width: 380, height: 300, marginLeft: 46, ariaLabel: `Preference scores: ${title(part)}`,
      x: { domain: [0, 1], label: "preference score" }, y: { label: "density", ticks: 4 },
      fy: { label: null, domain: ["before", "after"].filter((when) => part.some((d) => d.when === when)) },
      marks: [
        Plot.rectX([{ a: 0.3, b: 0.7 }], { x1: "a", x2: "b", fill: "currentColor", fillOpacity: 0.06 }),
        ...ARMS.flatMap(([arm, color]) => [
          Plot.areaY(part, { x: "preference_score", y: `${arm}_density`, fy: "when", fill: color, fillOpacity: 0.25 }),
          Plot.lineY(part, { x: "preference_score", y: `${arm}_density`, fy: "when", stroke: color }),
        ]),
      ],
    }), KEY);
  }

  function curves(rows) {
    return multiples(rows, (part) => {
      const of = (arm) => part.filter((d) => d[`${arm}_survival`] !== null)
        .sort((a, b) => a.time_day - b.time_day);
      const marks = ARMS.flatMap(([arm, color]) => [
        Plot.areaY(of(arm), { x: "time_day", y1: `${arm}_survival_lb`, y2: `${arm}_survival_ub`,
          fill: color, fillOpacity: 0.15, curve: "step-after" }),
        Plot.lineY(of(arm), { x: "time_day", y: `${arm}_survival`, stroke: color, curve: "step-after" }),
      ]);
      return plot({ width: 380, height: 260, marginLeft: 46, ariaLabel: `Survival: ${title(part)}`,
        x: { label: "day" }, y: { label: "without the outcome", grid: true, ticks: 5, zero: false }, marks });
    }, KEY);
  }

  function likelihood(rows) {
    return multiples(rows, (part) => {
      const known = part.filter((d) => d.log_likelihood !== null);
      const top = Math.max(...known.map((d) => d.log_likelihood));
      const near = known.map((d) => ({ rr: Math.exp(d.log_rr), fall: d.log_likelihood - top }))
        .filter((d) => d.fall > -8 && d.rr >= 0.001 && d.rr <= 1000).sort((a, b) => a.rr - b.rr);
      return near.length > 1 && plot({
        width: 380, height: 240, marginLeft: 46, ariaLabel: `Likelihood: ${title(part)}`,
        x: ratioAxis(Math.min(near[0].rr, 0.9), Math.max(near.at(-1).rr, 1.1), "ratio"),
        y: { label: "log-likelihood below the maximum", grid: true },
        marks: [Plot.ruleX([1], { strokeOpacity: 0.5 }), Plot.ruleY([-1.92], { strokeDasharray: "4 3" }),
          Plot.lineY(near, { x: "rr", y: "fall", stroke: TARGET })],
      });
    }, "Above the dashed line: the 95% interval.");
  }

  function attrition(rows) {
    return multiples(rows, (part) => {
      const steps = part.map((d) => ({ ...d, people: Math.abs(d.subjects ?? 0), bound: d.subjects < 0,
        rule: d.rule.length > 44 ? `${d.rule.slice(0, 42)}…` : d.rule }));
      if (!steps.some((d) => d.people > 0)) return null;
      const order = [...new Set(steps.sort((a, b) => a.sequence_number - b.sequence_number).map((d) => d.rule))];
      return plot({
        width: 560, height: 70 + 38 * order.length, marginLeft: 290, marginRight: 50,
        ariaLabel: `Attrition: ${title(part)}`,
        x: { label: "people", ticks: 4 }, y: { label: null, axis: null, domain: ["target", "comparator"] },
        fy: { label: null, domain: order, axis: "left", padding: 0.25 },
        marks: [
          Plot.barX(steps, { x: "people", y: "arm", fy: "rule",
            fill: (d) => (d.bound ? "none" : d.arm === "target" ? TARGET : COMPARATOR),
            stroke: (d) => (d.bound ? "var(--muted)" : "none"), strokeDasharray: "2 2" }),
          Plot.text(steps, { x: "people", y: "arm", fy: "rule", dx: 4, textAnchor: "start", fontSize: 10,
            text: (d) => Values.shown("count", d.subjects) }),
        ],
      });
    }, `People after each rule. ${KEY} Dashed: fewer people than that.`, 2);
  }

  function weeks(rows) {
    return multiples(rows, (part) => plot({
      width: 380, height: 220, ariaLabel: `Outcomes by week: ${title(part)}`,
      x: { label: "week from the start of exposure" },
      y: { label: "outcomes", grid: true, domain: [0, Math.max(1, ...part.map((d) => Math.abs(d.outcomes ?? 0)))] },
      marks: [
        Plot.rectY(part, { x1: "week", x2: (d) => d.week + 0.9, y: (d) => Math.abs(d.outcomes ?? 0),
          fill: (d) => (d.outcomes < 0 ? "none" : TARGET),
          stroke: (d) => (d.outcomes < 0 ? "var(--muted)" : "none"), strokeDasharray: "2 2" }),
        Plot.ruleX([0]), Plot.ruleY([0]),
      ],
    }), "Dashed bars: a suppressed count is below this height.");
  }

  function trend(rows) {
    const known = rows.filter((d) => d.ratio !== null);
    if (!known.length) return null;
    return multiples(known, (part) => {
      const points = part.map((d) => ({ ...d, date: new Date(`${d.month}-15`) }))
        .sort((a, b) => a.date - b.date);
      return plot({ width: 380, height: 220, ariaLabel: `Calendar time: ${title(part)}`,
        x: { type: "utc", label: null, ticks: 4 }, y: { label: "observed over expected", grid: true, zero: true },
        marks: [Plot.ruleY([1]), Plot.dot(points, { x: "date", y: "ratio", fill: TARGET, r: 2 })] });
    }, "Monthly ratios of observed to expected outcomes.");
  }

  // Knots of calendar time count months since the year 0, those of age months of life; both are drawn in years.
  const UNITS = { "calendar time": ["year", 12], age: ["age in years", 12], season: ["month of the year", 1] };

  function splines(rows) {
    return multiples(rows, (part) => {
      const node = document.createElement("div");
      for (const of of split(part, ["spline_type"])) {
        const [label, months] = UNITS[of[0].spline_type] ?? ["month", 1];
        const ratios = of.map((d) => d.rr).filter((x) => x > 0 && Number.isFinite(x));
        const low = Math.min(0.5, ...ratios) * 0.9, high = Math.max(2, ...ratios) * 1.1;
        node.append(plot({
          width: 380, height: 180, marginLeft: 46, ariaLabel: `Spline of ${of[0].spline_type}: ${title(part)}`,
          x: { label, ticks: 5, tickFormat: "d" }, y: ratioAxis(low, high, "rate ratio"),
          marks: [Plot.ruleY([1]), Plot.lineY(of, { x: (d) => d.knot_month / months, y: "rr",
            stroke: TARGET, marker: "circle" })],
        }));
      }
      return node;
    }, "Rate ratios at the knots, relative to the first one.");
  }

  function incidence(rows) {
    const known = rows.filter((d) => d.incidence_rate_p100py !== null).slice(0, 40);
    if (!known.length) return null;
    const texts = labels(known, ["database", "target", "outcome", "period", "subgroup", "age", "sex", "year"]);
    const lines = known.map((d, n) => ({ ...plain(d), line: n, text: texts[n] || title([d]) }));
    const left = Math.min(600, 30 + 6.4 * Math.max(...lines.map((d) => d.text.length)));
    return { node: plot({
      width: left + 340, height: 60 + 18 * lines.length, marginLeft: left, ariaLabel: "Incidence rates",
      x: { label: "outcomes per 100 person-years", zero: true, grid: true },
      y: { type: "point", domain: lines.map((d) => d.line), label: null, tickSize: 0,
        tickFormat: (n) => fitted(lines[n].text, 88) },
      marks: [Plot.ruleY(lines, { y: "line", x2: "incidence_rate_p100py", x1: 0, stroke: TARGET, strokeOpacity: 0.4 }),
        Plot.dot(lines, { y: "line", x: "incidence_rate_p100py", fill: TARGET, r: 4 })],
    }), caption: rows.length > known.length ? "The first rows with a rate; choose above for others." : "" };
  }

  const EVALUATIONS = { Train: "var(--muted)", CV: COMPARATOR };
  const colourOf = (d) => EVALUATIONS[d.evaluation] ?? TARGET;
  const EVALUATION_KEY = "Blue: other people; orange: held-out folds; grey: training data.";

  function discrimination(rows) {
    const known = rows.filter((row) => row.auroc !== null).slice(0, MOST_LINES);
    if (!known.length) return null;
    const texts = labels(known, NAMES);
    const lines = known.map((row, n) => ({ ...plain(row), line: n, text: texts[n] || title([row]) }));
    const left = Math.min(600, 24 + 6.4 * Math.max(...lines.map((d) => d.text.length)));
    const low = Math.min(0.5, ...lines.flatMap((d) => [d.auroc, d.auroc_lower ?? 1]));
    const node = plot({
      width: left + 420, height: 74 + 20 * lines.length, marginLeft: left, marginRight: 130,
      ariaLabel: `Areas under the ROC curve of ${lines.length} evaluations`,
      x: { domain: [low, 1], label: "area under the ROC curve", grid: true },
      y: { type: "point", domain: lines.map((d) => d.line), label: null, tickSize: 0, padding: 0.5,
        tickFormat: (n) => fitted(lines[n].text, 90) },
      marks: [
        Plot.ruleX([0.5], { stroke: "currentColor", strokeOpacity: 0.6 }),
        Plot.ruleY(lines.filter((d) => d.auroc_lower !== null), { y: "line", x1: "auroc_lower", x2: "auroc_upper",
          stroke: colourOf, strokeWidth: 2 }),
        Plot.dot(lines, { y: "line", x: "auroc", r: 4, fill: colourOf }),
        Plot.text(lines, { y: "line", frameAnchor: "right", dx: 124, textAnchor: "end",
          text: (d) => (d.auroc_lower === null ? d.auroc.toFixed(3)
            : `${d.auroc.toFixed(2)} (${d.auroc_lower.toFixed(2)}–${d.auroc_upper.toFixed(2)})`) }),
      ],
    });
    return { node, caption: `Areas with 95% limits. ${EVALUATION_KEY}` };
  }

  function roc(rows) {
    return multiples(rows, (part) => {
      const known = part.filter((d) => d.sensitivity !== null && d.specificity !== null);
      const lines = split(known, ["evaluation"]).flatMap((own) => {
        const { evaluation } = own[0];
        const points = own.map((d) => ({ evaluation, x: 1 - d.specificity, y: d.sensitivity }));
        return [{ evaluation, x: 0, y: 0 }, ...points, { evaluation, x: 1, y: 1 }]
          .sort((a, b) => a.x - b.x || a.y - b.y);
      });
      return known.length > 0 && plot({
        width: 380, height: 340, marginLeft: 46, ariaLabel: `ROC curve: ${title(part)}`,
        x: { domain: [0, 1], label: "1 − specificity", grid: true }, y: { domain: [0, 1], label: "sensitivity", grid: true },
        marks: [
          Plot.link([0], { x1: 0, y1: 0, x2: 1, y2: 1, stroke: "currentColor", strokeDasharray: "4 3" }),
          Plot.line(lines, { x: "x", y: "y", z: "evaluation", stroke: colourOf }),
          Plot.dot(lines.filter((d) => d.x > 0 && d.x < 1), { x: "x", y: "y", r: 2, fill: colourOf }),
        ],
      });
    }, EVALUATION_KEY);
  }

  function calibration(rows) {
    return multiples(rows, (part) => {
      const known = part.filter((d) => d.observed_incidence !== null && d.average_predicted_probability !== null);
      const most = Math.max(0.01, ...known.flatMap((d) => [d.observed_incidence, d.average_predicted_probability])) * 1.05;
      return known.length > 0 && plot({
        width: 380, height: 340, marginLeft: 52, ariaLabel: `Calibration: ${title(part)}`,
        x: { domain: [0, most], label: "predicted risk", grid: true }, y: { domain: [0, most], label: "observed risk", grid: true },
        marks: [
          Plot.link([0], { x1: 0, y1: 0, x2: most, y2: most, stroke: "currentColor", strokeDasharray: "4 3" }),
          Plot.line(known, { x: "average_predicted_probability", y: "observed_incidence", z: "evaluation",
            stroke: colourOf, strokeOpacity: 0.5, sort: "average_predicted_probability" }),
          Plot.dot(known, { x: "average_predicted_probability", y: "observed_incidence", r: 3.5, fill: colourOf }),
        ],
      });
    }, `${EVALUATION_KEY} Strata with a suppressed count are left out.`);
  }

  function coefficients(rows) {
    return multiples(rows, (part) => {
      const known = part.filter((d) => d.covariate_value).slice(0, 25)
        .map((d, n) => ({ n, value: d.covariate_value,
          text: d.covariate.length > 48 ? `${d.covariate.slice(0, 46)}…` : d.covariate }));
      return known.length > 0 && plot({
        width: 640, height: 60 + 18 * known.length, marginLeft: 310, ariaLabel: `Coefficients: ${title(part)}`,
        x: { label: "coefficient (log odds ratio)", grid: true },
        y: { type: "band", domain: known.map((d) => d.n), label: null, tickSize: 0, tickFormat: (n) => known[n].text },
        marks: [Plot.barX(known, { y: "n", x: "value", fill: (d) => (d.value > 0 ? COMPARATOR : TARGET) }),
          Plot.ruleX([0])],
      });
    }, "The 25 strongest coefficients of the rows. Orange: the risk increases; blue: it decreases.", 2, MODEL);
  }

  function demographics(rows) {
    return multiples(rows, (part) => {
      const [first] = ["Test", "CV", "Train"].filter((name) => part.some((d) => d.evaluation === name));
      const own = part.filter((d) => d.evaluation === (first ?? part[0].evaluation))
        .map((d) => ({ ...d, start: Number.parseInt(d.age, 10) })).sort((a, b) => a.start - b.start);
      return plot({
        width: 560, height: 260, marginLeft: 50, ariaLabel: `Age and gender: ${title(part)}`,
        x: { label: "age" }, y: { label: "risk", grid: true, zero: true }, fx: { label: null },
        marks: [
          Plot.lineY(own.filter((d) => d.average_predicted_probability !== null),
            { x: "start", y: "average_predicted_probability", fx: "gen_group", stroke: COMPARATOR }),
          Plot.dot(own.filter((d) => d.observed !== null),
            { x: "start", y: "observed", fx: "gen_group", fill: TARGET }),
          Plot.ruleY([0]),
        ],
      });
    }, "Blue: observed risk; orange: mean predicted risk; in other people, if there are any, or else in held-out folds.");
  }

  // Draw rates by year, one line for each cohort, database, age and sex of the rows.
  function yearly(rows) {
    const known = rows.filter((d) => d.incidence_rate !== null && d.year !== "all");
    if (!known.length) return null;
    const names = ["database", "cohort", "age", "sex"];
    const lines = split(known, names).slice(0, 12);
    const points = lines.flatMap((of) => of.map((d) => ({ ...plain(d), year: Number(d.year) })));
    const texts = labels(lines.map((of) => of[0]), names);
    const key = new Map(lines.map((of, n) => [names.map((name) => of[0][name]).join("~"), texts[n] || "rate"]));
    const series = (d) => key.get(names.map((name) => d[name]).join("~"));
    points.sort((a, b) => a.year - b.year);
    return { node: plot({
      width: 760, height: 320, marginLeft: 60, ariaLabel: "Incidence by year",
      color: { legend: texts.length > 1, domain: texts },
      x: { label: "year", tickFormat: "d" }, y: { label: "per 1,000 person-years", grid: true, zero: true },
      marks: [Plot.lineY(points, { x: "year", y: "incidence_rate", stroke: series, z: series }),
        Plot.dot(points, { x: "year", y: "incidence_rate", fill: series, r: 2.5, title: series })],
    }), caption: "Rates by year. Years with a suppressed count are left out." };
  }

  // Draw the shares of two cohorts against each other.
  function pairs(rows) {
    const known = rows.filter((d) => d.mean !== null && d.other_mean !== null);
    if (!known.length) return null;
    const parts = split(known, ["database", "cohort_id", "other_cohort_id"]);
    const drawn = parts[0].slice(0, MOST_DOTS).map(plain);
    const more = parts.length > 1 ? ` The first of ${parts.length} pairs; choose two cohorts above.` : "";
    return { node: plot({
      width: 460, height: 420, ariaLabel: `Shares of ${drawn.length} covariates in two cohorts`,
      x: { domain: [0, 1], label: fitted(drawn[0].cohort, 50), grid: true },
      y: { domain: [0, 1], label: fitted(drawn[0].other, 50) },
      marks: [
        Plot.link([0], { x1: 0, y1: 0, x2: 1, y2: 1, stroke: "currentColor", strokeDasharray: "4 3" }),
        Plot.dot(drawn, { x: "mean", y: "other_mean", fill: TARGET, fillOpacity: 0.55, r: 3,
          title: (d) => `${d.covariate}, ${d.window}` }),
      ],
    }), caption: `Shares of entries with each covariate.${more}` };
  }

  const KINDS = { forest, controls, balance, scores, curves, likelihood, attrition, weeks, trend, splines, incidence,
    discrimination, roc, calibration, coefficients, demographics, yearly, pairs };
  const TITLES = { forest: "Forest plot", controls: "Controls" };

  let plain = (row) => row; // Makes objects of rows, whose values are otherwise read from columns.

  // Draw a chart of rows of a record; null if nothing can be drawn.
  function draw(name, rows, record) {
    plain = (row) => (row instanceof record.Row ? Values.plain(record, row) : row);
    return rows.length && KINDS[name] ? KINDS[name](rows) : null;
  }

  return { draw, fitted, titleOf: (name) => TITLES[name] ?? "Chart" };
})();
