//! Several errors in one text, as Nomad prints them. Only the first ones are listed, because a request
//! can have any number of problems.

/// The most problems that one text lists.
pub(super) const LISTED: usize = 100;
/// The longest text of one listed problem in bytes.
const LONGEST: usize = 4096;

/// Lists the texts below their count.
pub(super) fn multi_error(texts: impl ExactSizeIterator<Item = String>) -> String {
    let count = match texts.len() {
        1 => "1 error".to_owned(),
        many => format!("{many} errors"),
    };
    let points: Vec<_> = first_ones(texts).into_iter().map(|text| format!("* {text}")).collect();
    format!("{count} occurred:\n\t{}\n\n", points.join("\n\t"))
}

/// Returns the first texts, and how many more there are.
pub(super) fn first_ones(mut texts: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let shorten = |text| shortened(text, LONGEST);
    let mut listed: Vec<_> = texts.by_ref().take(LISTED).map(shorten).collect();
    match texts.len() {
        0 => {}
        more => listed.push(format!("and {more} more")),
    }
    listed
}

/// Cuts a text that has more than this number of bytes.
pub(crate) fn shortened(mut text: String, longest: usize) -> String {
    if text.len() <= longest {
        return text;
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=longest).rev().find(is_boundary).unwrap_or_default();
    let rest = text.len() - end;
    text.truncate(end);
    text + &format!("… ({rest} more bytes)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(number: usize) -> impl ExactSizeIterator<Item = String> {
        (0..number).map(|at| format!("problem {at}"))
    }

    #[test]
    fn the_first_problems_are_listed_and_the_rest_is_counted() {
        assert_eq!(multi_error(texts(2)), "2 errors occurred:\n\t* problem 0\n\t* problem 1\n\n");
        assert_eq!(first_ones(texts(LISTED)).len(), LISTED);
        let many = first_ones(texts(LISTED + 1));
        assert_eq!(many.last().unwrap(), "and 1 more");
        let many = multi_error(texts(1_000_000));
        assert!(many.starts_with("1000000 errors occurred:"));
        assert!(many.len() < 4096, "{}", many.len());
    }

    #[test]
    fn a_long_problem_is_cut_between_characters() {
        for longest in [10, 11] {
            assert_eq!(shortened("é".repeat(5), longest), "é".repeat(5));
            let cut = shortened("é".repeat(6), longest);
            assert_eq!(cut, format!("{}… (2 more bytes)", "é".repeat(5)));
        }
    }
}
