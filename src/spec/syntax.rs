//! The three syntaxes that a specification may be written in.

use std::path::Path;

/// A syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// HCL: everything that Nomad's own reader takes, and HCL2's literals.
    Hcl,
    /// YAML 1.2, several documents allowed.
    Yaml,
    /// JSON, with what Nomad's own reader lets pass.
    Json,
}

impl Syntax {
    /// All of them, in the order in which they are named to people.
    pub const ALL: [Self; 3] = [Self::Hcl, Self::Yaml, Self::Json];

    /// Its word: `hcl`, `yaml`, `json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hcl => "hcl",
            Self::Yaml => "yaml",
            Self::Json => "json",
        }
    }

    /// The syntax of that word or file extension, in any case.
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "hcl" => Some(Self::Hcl),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The syntax that a file's name says.
    pub fn from_path(path: &Path) -> Option<Self> {
        Self::from_extension(path.extension()?.to_str()?)
    }

    /// What its users call keys with values: "a block".
    pub(super) const fn object_name(self) -> &'static str {
        match self {
            Self::Hcl => "a block",
            Self::Yaml => "a mapping",
            Self::Json => "an object",
        }
    }

    /// A key with a text as it is written in it.
    pub(super) fn pair(self, key: &str, text: &str) -> String {
        match self {
            Self::Hcl => format!("{key} = \"{text}\""),
            Self::Yaml => format!("{key}: {text}"),
            Self::Json => format!("\"{key}\": \"{text}\""),
        }
    }

    /// Whether a text is JSON whatever its file is called: Nomad goes by the first character
    /// (`nomad-http-api` 5.1).
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
            .ok_or_else(|| format!("`{text}` is not a syntax; known are hcl, yaml and json"))
    }
}
