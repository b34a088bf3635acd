//! The three syntaxes of specifications.

use std::path::Path;

/// The syntax of a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// HCL: everything that Nomad's own reader accepts, and HCL2's literals.
    Hcl,
    /// YAML 1.2, with any number of documents.
    Yaml,
    /// JSON, with the extensions that Nomad's own reader accepts.
    Json,
}

impl Syntax {
    /// All syntaxes, in display order.
    pub const ALL: [Self; 3] = [Self::Hcl, Self::Yaml, Self::Json];

    /// Returns its name: `hcl`, `yaml` or `json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hcl => "hcl",
            Self::Yaml => "yaml",
            Self::Json => "json",
        }
    }

    /// Returns the syntax of a name or file extension, in any case.
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "hcl" => Some(Self::Hcl),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Returns the syntax of a file name's extension.
    pub fn from_path(path: &Path) -> Option<Self> {
        Self::from_extension(path.extension()?.to_str()?)
    }

    /// Returns its term for keys with values: "a block".
    pub(crate) const fn object_name(self) -> &'static str {
        match self {
            Self::Hcl => "a block",
            Self::Yaml => "a mapping",
            Self::Json => "an object",
        }
    }

    /// Writes a key with a text.
    pub(super) fn pair(self, key: &str, text: &str) -> String {
        match self {
            Self::Hcl => format!("{key} = \"{text}\""),
            Self::Yaml => format!("{key}: {text}"),
            Self::Json => format!("\"{key}\": \"{text}\""),
        }
    }

    /// Returns whether a text is JSON. Nomad decides by the first character, not by the file name.
    pub fn looks_like_json(text: &str) -> bool {
        text.trim_start().starts_with('{')
    }
}

impl std::fmt::Display for Syntax {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Syntax {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_extension(text)
            .ok_or_else(|| format!("unknown syntax `{text}`: expected `hcl`, `yaml` or `json`"))
    }
}
