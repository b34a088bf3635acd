//! Several errors in one text, as Nomad prints them.

/// Lists the texts below their count.
pub(super) fn multi_error(texts: impl IntoIterator<Item = String>) -> String {
    let points: Vec<_> = texts.into_iter().map(|text| format!("* {text}")).collect();
    let count = match points.len() {
        1 => "1 error".to_owned(),
        many => format!("{many} errors"),
    };
    format!("{count} occurred:\n\t{}\n\n", points.join("\n\t"))
}
