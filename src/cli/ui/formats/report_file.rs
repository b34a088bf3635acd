//! The reports of `--format FORMAT=FILE`.

use super::github::github;
use super::gitlab::gitlab;
use super::junit::junit;
use super::markdown::markdown;
use super::run_report::RunReport;
use super::sarif::sarif;

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Sarif,
    Junit,
    Github,
    Gitlab,
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

    /// Returns whether it consists of commands to a workflow runner.
    pub(crate) fn has_commands(&self) -> bool {
        self.format == Format::Github
    }

    /// Returns its text, without a final line end.
    pub(crate) fn text(&self, report: &RunReport) -> String {
        match self.format {
            Format::Sarif => sarif(report),
            Format::Junit => junit(report),
            Format::Github => github(report),
            Format::Gitlab => gitlab(report),
            Format::Markdown => markdown(report),
        }
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
            "gitlab" => Format::Gitlab,
            "markdown" => Format::Markdown,
            _ => {
                return Err(
                    "expected sarif=FILE, junit=FILE, github=FILE, gitlab=FILE or markdown=FILE"
                        .to_owned(),
                );
            }
        };
        if file.is_empty() {
            return Err(format!("write `{word}=FILE`, or `{word}=-` for standard output"));
        }
        let file = file.to_owned();
        Ok(Self { format, file })
    }
}
