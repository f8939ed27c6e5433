//! Finding values inside a text: addresses, links, paths, account and phone numbers, amounts, dates.

use crate::form::{self, Class, Form, Number};

/// Something found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) form: Form,
    /// For amounts.
    pub(crate) number: Option<Number>,
}

/// Where a text is cut: white space, and what people put around an address or a link.
const CUTS: [char; 12] = [
    '<', '>', '"', '|', '`', '[', ']', '{', '}', '“', '”', '\u{a0}',
];
const EDGES: [char; 14] = [
    ',', ';', ':', '!', '?', '.', '(', ')', '\'', '’', '‘', '*', '_', '«',
];
/// A phone or account number is written in at most so many groups.
const MAX_GROUPS: usize = 10;

/// Everything in `text` that has a form of its own, in order; words are not among them.
pub(crate) fn values(text: &str, mut each: impl FnMut(Found)) {
    let tokens: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || CUTS.contains(&c))
        .flat_map(|token| token.split("]("))
        .map(|token| token.trim_matches(EDGES))
        .filter(|token| !token.is_empty())
        .collect();
    let mut skip = 0;
    for (at, token) in tokens.iter().enumerate() {
        if token.len() > form::MAX_VALUE {
            continue;
        }
        // What is written in several groups is found before its groups are taken for numbers.
        let found = (at >= skip)
            .then(|| grouped(tokens.get(at..).unwrap_or_default()))
            .flatten();
        if let Some((form, groups)) = found {
            each(Found { form, number: None });
            skip = at + groups;
        }
        let is_inside = at < skip;
        alone(token, is_inside, &tokens, at, &mut each);
    }
}

fn alone(token: &str, is_inside: bool, tokens: &[&str], at: usize, each: &mut impl FnMut(Found)) {
    let plain = |form| Found { form, number: None };
    if let Some(address) = form::address(token) {
        return each(plain(Form::new(Class::Address, address)));
    }
    let Some(form) = form::one(token) else {
        return;
    };
    match form.class {
        Class::Number if is_inside => {}
        Class::Number => {
            let around = |at: Option<usize>| {
                at.and_then(|at| tokens.get(at)).is_some_and(|word| {
                    Number::read(&format!("{word}1")).is_some_and(|number| number.has_currency)
                        && !word.ends_with(|c: char| c.is_ascii_digit())
                })
            };
            let number = Number::read(token).map(|number| Number {
                has_currency: number.has_currency
                    || around(at.checked_sub(1))
                    || around(at.checked_add(1)),
                ..number
            });
            each(Found { form, number });
        }
        Class::Phrase => {}
        _ => each(plain(form)),
    }
}

/// An account or phone number that these tokens begin with, and how many of them it takes.
fn grouped(tokens: &[&str]) -> Option<(Form, usize)> {
    let first = tokens.first()?;
    let begins = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || c == '+' || c == '(';
    if !first.starts_with(begins) || !first.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut joined = String::new();
    let mut best = None;
    for (index, token) in tokens.iter().take(MAX_GROUPS).enumerate() {
        let fits = token.len() <= 34
            && token.chars().all(|c| {
                c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '(' | ')' | '.' | '/')
            });
        if !fits {
            break;
        }
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(token);
        if let Some(iban) = form::iban(&joined) {
            best = Some((Form::new(Class::Iban, iban), index + 1));
        } else if form::moment(first).is_none()
            && Number::read(&joined).is_none()
            && let Some(phone) = form::phone(&joined)
        {
            best = Some((Form::new(Class::Phone, phone), index + 1));
        }
    }
    best
}
