//! Every environment variable that the program reads, with its documentation.
//!
//! Only this file reads the environment, once, before a command runs. Nomad's variables have the
//! meaning that they have in Nomad's CLI: an empty value counts as unset, and a flag overrides its
//! variable.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use nomad_csi_model::Secret;

macro_rules! variables {
    ($($variant:ident = $name:literal: $doc:literal;)*) => {
        /// An environment variable that the program reads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Variable {
            $(#[doc = $doc] $variant,)*
        }

        impl Variable {
            /// All variables, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the documentation, one sentence.
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

variables! {
    Address = "NOMAD_ADDR": "Address of the server: http://, https:// or unix://.";
    Context = "NOMAD_CSI_CONTEXT": "Name of a cluster in the config file, as in `--context`.";
    Region = "NOMAD_REGION": "Region that handles the requests.";
    Namespace = "NOMAD_NAMESPACE": "Namespace; `*` means all namespaces in commands that read.";
    Token = "NOMAD_TOKEN": "ACL token.";
    HttpAuth = "NOMAD_HTTP_AUTH": "HTTP basic authentication, `USER:PASSWORD` or `USER`.";
    CaCert = "NOMAD_CACERT": "PEM file of trusted certificate authorities; overrides NOMAD_CAPATH.";
    CaPath = "NOMAD_CAPATH": "Directory of PEM files of trusted certificate authorities.";
    ClientCert = "NOMAD_CLIENT_CERT": "PEM file of the client certificate.";
    ClientKey = "NOMAD_CLIENT_KEY": "PEM file of the client certificate's private key.";
    TlsServerName = "NOMAD_TLS_SERVER_NAME": "Name in the server's certificate, if it is not the host name.";
    SkipVerify = "NOMAD_SKIP_VERIFY": "`true` accepts any server certificate; never use it in production.";
    ResponseLimits = "NOMAD_CSI_RESPONSE_LIMITS": "Comma-separated limits of what a server may send, `NAME=VALUE`.";
    Policy = "NOMAD_CSI_POLICY": "Policy file; it counts together with `--policy` and that of the context.";
    NoColor = "NO_COLOR": "Any value disables colours.";
    NomadNoColor = "NOMAD_CLI_NO_COLOR": "Any value disables colours, even if they are forced.";
    NomadForceColor = "NOMAD_CLI_FORCE_COLOR": "Any value forces colours, even without a terminal.";
    Log = "NOMAD_CSI_LOG": "Log filter: `info`, `debug` or `warn,nomad_csi_client::nomad=debug`.";
    LogFormat = "NOMAD_CSI_LOG_FORMAT": "Format of log lines: `text` or `json`.";
    GithubActions = "GITHUB_ACTIONS": "Any value breaks up text that a GitHub runner takes for a command.";
    AzurePipelines = "TF_BUILD": "Any value breaks up text that Azure Pipelines takes for a command.";
    Columns = "COLUMNS": "Width of the output in columns.";
    Terminal = "TERM": "`dumb` disables colours and live progress lines.";
    StateHome = "XDG_STATE_HOME": "`--embedded` stores its state in its subdirectory `nomad-csi`.";
    ConfigHome = "XDG_CONFIG_HOME": "Directory of the config file, `nomad-csi/config.toml`.";
    AppData = "APPDATA": "Directory of `nomad-csi/config.toml` on Windows.";
    Home = "HOME": "Parent of `.local/state` and `.config` if the XDG variables are not set.";
    RuntimeDir = "XDG_RUNTIME_DIR": "Directory of tokens of agents, and of sockets whose path is too long.";
    CsiEndpoint = "CSI_ENDPOINT": "Socket of `plugin serve`, `probe` and `check`: unix:// and a path.";
    HttpProxy = "HTTP_PROXY": "Proxy for http:// addresses; also read in lower case.";
    HttpsProxy = "HTTPS_PROXY": "Proxy for https:// addresses; also read in lower case.";
    NoProxy = "NO_PROXY": "Comma-separated hosts without a proxy; also read in lower case.";
    User = "USER": "User name that the lock and the ledger of a set record.";
    WindowsUser = "USERNAME": "User name that the lock and the ledger of a set record (Windows).";
    Complete = "COMPLETE": "Set by the shell completion script only.";
}

/// The beginning of the names of variables that give values to variables of specifications.
const SPECIFICATION_VARIABLE: &str = "NOMAD_CSI_VAR_";

/// The environment variables of one run.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// The error of a variable that must be text and is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {} is not valid UTF-8", .0.name())]
pub struct NotUtf8(pub Variable);

impl Environment {
    /// Returns the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Returns a variable's value if it is set and not empty.
    ///
    /// # Errors
    /// Fails if the value is not UTF-8.
    pub fn text(&self, variable: Variable) -> Result<Option<&str>, NotUtf8> {
        match self.raw(variable) {
            None => Ok(None),
            Some(value) => value.to_str().map(Some).ok_or(NotUtf8(variable)),
        }
    }

    /// Returns a variable's value as a path if it is set and not empty.
    pub fn path(&self, variable: Variable) -> Option<PathBuf> {
        self.raw(variable).map(PathBuf::from)
    }

    /// Returns true if a variable is set and not empty.
    pub fn is_set(&self, variable: Variable) -> bool {
        self.raw(variable).is_some()
    }

    /// Returns the value of any variable, for references in specifications.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns the values of variables of specifications: those of `NOMAD_CSI_VAR_NAME`, by name. One that is not UTF-8
    /// is no value.
    pub fn specification_variables(&self) -> BTreeMap<String, Secret> {
        let named = self.0.iter().filter_map(|(name, value)| {
            let name = name.to_str()?.strip_prefix(SPECIFICATION_VARIABLE)?;
            Some((name.to_owned(), Secret::new(value.to_str()?.to_owned())))
        });
        named.collect()
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
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Returns the command line of this process, the program's name first.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(super) fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// Returns the working directory of this process. A deleted one becomes `.`.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(super) fn current_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
}

/// Returns the section on environment variables for `--help` and the manual.
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
    let title = "Environment (a flag overrides its variable; empty counts as unset):".to_owned();
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
