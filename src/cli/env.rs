//! Every environment variable that is read anywhere, with its doc line.
//!
//! The environment is read here and nowhere else, once, before anything runs. Nomad's own variables
//! mean what they mean to Nomad's CLI (`nomad-http-api` 2.2); as there, an empty value counts as
//! unset, and a flag wins over its variable.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

macro_rules! variables {
    ($($variant:ident = $name:literal: $doc:literal;)*) => {
        /// A variable that has a meaning here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Variable {
            $(#[doc = $doc] $variant,)*
        }

        impl Variable {
            /// All of them, in the order in which they are told to people.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it does, one sentence.
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

variables! {
    Address = "NOMAD_ADDR": "Address of the server: http://, https:// or unix://.";
    Region = "NOMAD_REGION": "Region that requests are meant for.";
    Namespace = "NOMAD_NAMESPACE": "Namespace; `*` is all, where a command reads.";
    Token = "NOMAD_TOKEN": "ACL token.";
    HttpAuth = "NOMAD_HTTP_AUTH": "HTTP basic authentication, `USER:PASSWORD` or `USER`.";
    CaCert = "NOMAD_CACERT": "PEM file with the authorities to trust; beats NOMAD_CAPATH.";
    CaPath = "NOMAD_CAPATH": "Directory of PEM files with the authorities to trust.";
    ClientCert = "NOMAD_CLIENT_CERT": "PEM file with the client certificate.";
    ClientKey = "NOMAD_CLIENT_KEY": "PEM file with the client certificate's key.";
    TlsServerName = "NOMAD_TLS_SERVER_NAME": "Name in the server's certificate, if it is not the host's.";
    SkipVerify = "NOMAD_SKIP_VERIFY": "A true value accepts any server certificate: never in production.";
    NoColor = "NO_COLOR": "Any value: no colours.";
    NomadNoColor = "NOMAD_CLI_NO_COLOR": "Any value: no colours; beats forcing them.";
    NomadForceColor = "NOMAD_CLI_FORCE_COLOR": "Any value: colours also where the output is no terminal.";
    Log = "NOMAD_CSI_LOG": "What is logged: `info`, `debug`, or `warn,nomad_csi::nomad=debug`.";
    LogFormat = "NOMAD_CSI_LOG_FORMAT": "How it is logged: `text` or `json`.";
    Columns = "COLUMNS": "Width to format for.";
    Terminal = "TERM": "`dumb`: no colours and no moving lines.";
    StateHome = "XDG_STATE_HOME": "`--embedded` keeps its state in `nomad-csi` below it.";
    ConfigHome = "XDG_CONFIG_HOME": "The config file is `nomad-csi/config.toml` below it.";
    AppData = "APPDATA": "On Windows, the config file is `nomad-csi/config.toml` below it.";
    Home = "HOME": "Without the XDG variables: `.local/state` and `.config` below it.";
    RuntimeDir = "XDG_RUNTIME_DIR": "Where an agent's sockets are, if its own directory's path is too long.";
    HttpProxy = "HTTP_PROXY": "Proxy for http:// addresses; also in small letters.";
    HttpsProxy = "HTTPS_PROXY": "Proxy for https:// addresses; also in small letters.";
    NoProxy = "NO_PROXY": "Hosts reached without a proxy, by commas; also in small letters.";
    User = "USER": "Who is said to be at work on a set of volumes.";
    WindowsUser = "USERNAME": "The same on Windows.";
    Complete = "COMPLETE": "Set by the shell's completion script, never by hand.";
}

/// The environment of one run.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// A variable's value is not UTF-8, and it is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {} is not valid UTF-8", .0.name())]
pub struct NotText(pub Variable);

impl Environment {
    /// The process's own.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A variable's value, if it is set and not empty.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn text(&self, variable: Variable) -> Result<Option<&str>, NotText> {
        match self.raw(variable) {
            None => Ok(None),
            Some(value) => value.to_str().map(Some).ok_or(NotText(variable)),
        }
    }

    /// A variable's value as a path, if it is set and not empty.
    pub fn path(&self, variable: Variable) -> Option<PathBuf> {
        self.raw(variable).map(PathBuf::from)
    }

    /// Whether a variable is set and not empty.
    pub fn is_set(&self, variable: Variable) -> bool {
        self.raw(variable).is_some()
    }

    /// Any variable's value, if it is set: one that a specification refers to.
    pub fn any(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    fn raw(&self, variable: Variable) -> Option<&OsStr> {
        let named = |name: &str| {
            let value = self.0.get(OsStr::new(name))?;
            (!value.is_empty()).then_some(value.as_os_str())
        };
        match variable {
            Variable::HttpProxy | Variable::HttpsProxy | Variable::NoProxy => {
                named(variable.name()).or_else(|| named(&variable.name().to_ascii_lowercase()))
            }
            _ => named(variable.name()),
        }
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

/// The process's command line, the program's name first.
pub(super) fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// The process's working directory. One that is gone counts as `.`, which fails where it is used.
pub(super) fn current_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
}

/// The section on the environment, for `--help`, the manual and the reference.
pub(super) fn help_section() -> String {
    let shown = |variable: &&Variable| **variable != Variable::Complete;
    let width = Variable::ALL
        .iter()
        .filter(shown)
        .map(|variable| variable.name().len())
        .max()
        .unwrap_or_default();
    let lines = Variable::ALL
        .iter()
        .filter(shown)
        .map(|variable| format!("\n  {:width$}  {}", variable.name(), variable.doc()));
    let title = "Environment (a flag wins over its variable; empty counts as unset):".to_owned();
    std::iter::once(title).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_counts_as_unset() {
        let environment = Environment::from_iter([("NOMAD_TOKEN", ""), ("NOMAD_REGION", "eu")]);
        assert_eq!(environment.text(Variable::Token), Ok(None));
        assert_eq!(environment.text(Variable::Region), Ok(Some("eu")));
        assert!(!environment.is_set(Variable::Token));
    }

    #[test]
    fn names_are_unique_and_docs_are_sentences_that_fit_a_line() {
        for (at, variable) in Variable::ALL.iter().enumerate() {
            assert!(variable.doc().len() <= 74, "{}", variable.name());
            let before = &Variable::ALL[..at];
            assert!(before.iter().all(|other| other.name() != variable.name()));
            assert!(variable.doc().ends_with('.'), "{}", variable.name());
        }
    }
}
