//! The reports of `plan --format FORMAT=FILE`.

use super::github::github;
use super::junit::junit;
use super::markdown::markdown;
use super::report_input::ReportInput;
use super::sarif::sarif;

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Sarif,
    Junit,
    Github,
    Markdown,
}

/// A report to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportFile {
    format: Format,
    /// The path of the file, or `-`.
    file: String,
}

impl ReportFile {
    /// Returns the path of the file, or `None` for standard output.
    pub(crate) fn file(&self) -> Option<&str> {
        (self.file != "-").then_some(self.file.as_str())
    }
}

impl std::str::FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, file) = text.split_once('=').unwrap_or((text, ""));
        let format = match word {
            "sarif" => Format::Sarif,
            "junit" => Format::Junit,
            "github" => Format::Github,
            "markdown" => Format::Markdown,
            _ => {
                return Err(
                    "expected sarif=FILE, junit=FILE, github=FILE or markdown=FILE".to_owned(),
                );
            }
        };
        if file.is_empty() {
            return Err(format!(
                "write `{word}=FILE`, or `{word}=-` for standard output"
            ));
        }
        let file = file.to_owned();
        Ok(Self { format, file })
    }
}

/// Returns the text of a report, without a final line end.
pub(crate) fn report(file: &ReportFile, input: ReportInput<'_>) -> String {
    match file.format {
        Format::Sarif => sarif(input),
        Format::Junit => junit(input),
        Format::Github => github(input),
        Format::Markdown => markdown(input),
    }
}
