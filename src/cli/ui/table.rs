//! Aligned tables and key = value views, in the layout of Nomad's CLI.
//!
//! Columns are left-aligned and separated by two spaces. The last column has no padding, and an empty
//! cell reads `<none>`. Cells are never cut or wrapped, because scripts and people copy them.

use super::printer::one_line;

/// The text of an empty cell.
pub(super) const NONE: &str = "<none>";

/// Returns a table with a heading line.
pub(crate) fn table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    table.set_header(headings);
    for row in rows {
        table.add_row(row.iter().map(|cell| cell_text(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// Returns keys and values, with keys padded to one width.
pub(crate) fn key_values<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().collect();
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or_default();
    pairs.iter().map(|(key, value)| format!("{key:width$} = {}\n", cell_text(value))).collect()
}

/// Returns a bold heading.
pub(super) fn heading(text: &str) -> String {
    let bold = anstyle::Style::new().bold();
    format!("{bold}{text}{bold:#}\n")
}

fn cell_text(cell: &str) -> String {
    if cell.is_empty() { NONE.to_owned() } else { one_line(cell) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_separated_by_two_spaces_without_trailing_padding() {
        let shown = table(
            ["ID", "Name", "Mode"],
            [
                ["vol1".into(), "my db".into(), "single-node-writer".into()],
                ["日本".into(), String::new(), "a\nb".into()],
            ],
        );
        let expected = "ID    Name    Mode\n\
                        vol1  my db   single-node-writer\n\
                        日本  <none>  a␊b\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn keys_are_padded_to_the_longest_key() {
        let shown = key_values([("ID", "vol1".into()), ("External ID", String::new())]);
        assert_eq!(shown, "ID          = vol1\nExternal ID = <none>\n");
    }
}
