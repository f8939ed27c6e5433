//! The query of a URL, as pairs. One reading for every door: a form, with `+` for a blank, and nothing that is escaped badly.

/// The names and values of a query in their order; the name of the first pair that is not escaped properly where there is one.
pub(crate) fn pairs(query: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let read = |text: &str| api::unescaped(&text.replace('+', " "));
            match (read(name), read(value)) {
                (Some(name), Some(value)) => Ok((name, value)),
                _ => Err(name.to_owned()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn a_query_is_read_as_forms_are_written_or_not_at_all() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            pairs("all&caller=a%20b+c&x=1=2&&").unwrap(),
            [pair("all", ""), pair("caller", "a b c"), pair("x", "1=2")]
        );
        assert_eq!(pairs("").unwrap(), []);
        for bad in ["a=%zz", "a=%f", "%=1", "a=%ff"] {
            assert!(pairs(bad).is_err(), "{bad}");
        }
    }
}
