//! Charts as inline SVG: numbers in, markup out. No script, no reference to anything outside.

use std::fmt::Write as _;

use crate::page::{Row, Step, html::escape};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;

/// Calls over time, stacked by how they ended.
pub fn steps(steps: &[Step]) -> String {
    let totals = steps
        .iter()
        .map(|step| step.permitted + step.refused + step.other);
    let most = nice(totals.max().unwrap_or(0).max(1));
    let (inner_width, inner_height) = (WIDTH - LEFT, HEIGHT - BOTTOM - TOP);
    let height = |count: u64| count as f64 / most as f64 * inner_height;
    let slot = inner_width / steps.len().max(1) as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Calls over time, by how they ended\">\n"
    );
    for quarter in 0..=4_u64 {
        let (count, y) = (
            most * quarter / 4,
            HEIGHT - BOTTOM - inner_height * quarter as f64 / 4.0,
        );
        if (most * quarter).is_multiple_of(4) {
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{count}</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
    }
    let gap = (slot * 0.18).min(6.0);
    let every = steps.len().div_ceil(8).max(1);
    for (index, step) in steps.iter().enumerate() {
        let x = LEFT + slot * index as f64;
        let mut y = HEIGHT - BOTTOM;
        let _ = write!(
            svg,
            "<g><title>{}: {} permitted, {} refused, {} other</title>",
            escape(&short(&step.from)),
            step.permitted,
            step.refused,
            step.other
        );
        for (class, count) in [
            ("permitted", step.permitted),
            ("refused", step.refused),
            ("other", step.other),
        ] {
            if count > 0 {
                y -= height(count);
                let _ = write!(
                    svg,
                    "<rect class=\"{class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    x + gap / 2.0,
                    (slot - gap).max(1.0),
                    height(count)
                );
            }
        }
        svg.push_str("</g>\n");
        if index.is_multiple_of(every) {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + gap / 2.0,
                HEIGHT - 6.0,
                escape(&tick(&step.from, steps))
            );
        }
    }
    svg.push_str("</svg>\n");
    svg.push_str("<p class=\"key\"><span><i style=\"background:var(--good)\"></i>permitted</span><span><i style=\"background:var(--bad)\"></i>refused</span><span><i style=\"background:var(--warn)\"></i>failed, cancelled or unknown</span></p>\n");
    svg
}

/// Names with a bar each.
pub fn bars(rows: &[Row], class: &str, shown: usize) -> String {
    let Some(most) = rows.iter().map(|row| row.count).max() else {
        return "<p class=\"none\">None.</p>\n".to_owned();
    };
    let mut out = "<div class=\"bars\">\n".to_owned();
    for row in rows.iter().take(shown) {
        let width = row.count as f64 / most.max(1) as f64 * 100.0;
        let _ = writeln!(
            out,
            "<span class=\"name\">{}</span><span class=\"figure\">{}</span><svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"{width:.2}\" height=\"6\" rx=\"1\"/></svg>",
            escape(&row.name),
            grouped(row.count)
        );
    }
    out.push_str("</div>\n");
    let rest: u64 = rows.iter().skip(shown).map(|row| row.count).sum();
    if rest > 0 {
        let _ = writeln!(out, "<p class=\"none\">and {} more</p>", grouped(rest));
    }
    out
}

/// A round number that is not smaller, and divisible by four.
fn nice(most: u64) -> u64 {
    let small = [4, 8, 12].into_iter().find(|round| *round >= most);
    let scale = 10_u64.saturating_pow(most.max(10).ilog10() - 1);
    let factors = [12, 16, 20, 24, 32, 40, 60, 80, 100];
    let large = || {
        factors
            .into_iter()
            .map(|factor| scale.saturating_mul(factor))
            .find(|round| *round >= most)
    };
    small.or_else(large).unwrap_or(most)
}

/// `12345` as `12 345`, with a thin space.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    out
}

/// A time without its seconds.
pub fn short(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

/// A time as it fits below an axis: the day, or the hour where all steps are of few days.
fn tick(time: &str, steps: &[Step]) -> String {
    let day =
        |step: Option<&Step>| step.map(|step| step.from.get(..10).unwrap_or_default().to_owned());
    let whole_days = steps.iter().all(|step| step.from.contains("T00:00:00"));
    match (whole_days, day(steps.first()) == day(steps.last())) {
        (true, _) => time.get(5..10).unwrap_or(time).to_owned(),
        (false, true) => time.get(11..16).unwrap_or(time).to_owned(),
        (false, false) => time.get(5..16).unwrap_or(time).replace('T', " "),
    }
}
