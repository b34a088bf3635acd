//! Arguments of every command.

#[cfg(feature = "agent")]
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::redacted::RedactedText;
use crate::cli::durations::TimeSpan;
use nomad_csi_model::Namespace;

const SERVER: &str = "Server";
const MESSAGES: &str = "Messages";
const CHANGES: &str = "Changes";

/// Arguments of every command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct GlobalArgs {
    /// Address of the server: http://, https:// or unix://
    #[arg(long, global = true, value_name = "URL", help_heading = SERVER)]
    pub address: Option<String>,
    /// Name of a cluster in the config file; overrides the environment
    #[arg(long, global = true, value_name = "NAME", help_heading = SERVER, conflicts_with = "address")]
    pub context: Option<String>,
    /// Config file with named clusters [default: nomad-csi/config.toml in the user's config directory]
    ///
    /// The command uses the cluster that `--context` or NOMAD_CSI_CONTEXT names. What `context use` selected is of another
    /// file, and does not count.
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub config_file: Option<PathBuf>,
    /// Run against an agent in this process that keeps its state in DIR
    ///
    /// Default directory: `nomad-csi/embedded` in the user's state directory. If an agent already
    /// runs on that directory, the command uses that agent.
    #[cfg(feature = "agent")]
    #[arg(
        long, global = true, value_name = "DIR", num_args = 0..=1, require_equals = true,
        default_missing_value = "", conflicts_with_all = ["address", "region", "context"],
        help_heading = SERVER,
        value_hint = ValueHint::DirPath, value_parser = clap::builder::OsStringValueParser::new()
    )]
    pub embedded: Option<OsString>,
    /// Region that handles the requests
    #[arg(long, global = true, value_name = "NAME", help_heading = SERVER, hide_short_help = true)]
    pub region: Option<String>,
    /// Namespace; `*` means all namespaces in commands that read
    #[arg(short = 'n', long, global = true, value_name = "NAME", help_heading = SERVER)]
    pub namespace: Option<String>,
    /// All namespaces, in commands that read; like `--namespace '*'`
    #[arg(short = 'A', long, global = true, help_heading = SERVER, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// ACL token; prefer NOMAD_TOKEN, because other users can read this flag in the process list
    #[arg(long, global = true, value_name = "TOKEN", help_heading = SERVER, hide_short_help = true)]
    pub token: Option<RedactedText>,
    /// PEM file of trusted certificate authorities
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub ca_cert: Option<PathBuf>,
    /// Directory of PEM files of trusted certificate authorities
    #[arg(long, global = true, value_name = "DIR", help_heading = SERVER, value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub ca_path: Option<PathBuf>,
    /// PEM file of the client certificate
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub client_cert: Option<PathBuf>,
    /// PEM file of the client certificate's private key
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub client_key: Option<PathBuf>,
    /// Name in the server's certificate [default: the host name of the address]
    #[arg(long, global = true, value_name = "NAME", help_heading = SERVER, hide_short_help = true)]
    pub tls_server_name: Option<String>,
    /// Accept any server certificate, never in production; `=false` overrides other settings
    #[arg(
        long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", help_heading = SERVER, hide_short_help = true
    )]
    pub tls_skip_verify: Option<bool>,
    /// Longest time until the response to a request begins, such as 5s; `--timeout` is the same where it is free
    ///
    /// A request that ends then may have taken effect; the error says so. Requests that a server holds until something
    /// happens have limits of their own. [default: 60s, and 15m for a request that changes something]
    #[arg(long, global = true, value_name = "TIME", help_heading = SERVER, hide_short_help = true, value_parser = request_timeout)]
    pub request_timeout: Option<TimeSpan>,
    /// Limit of what a server may send, such as list-items=1000000, repeatable
    #[arg(long, global = true, value_name = "NAME=VALUE", help_heading = SERVER, hide_short_help = true)]
    pub response_limit: Vec<String>,
    /// File that forbids changes, with `deny` and `max_risk`; repeatable
    ///
    /// All named policies count, with that of the context and NOMAD_CSI_POLICY, and nothing approves what one forbids. Commands
    /// that neither plan nor remove ignore it.
    #[arg(long, global = true, value_name = "FILE", help_heading = CHANGES, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub policy: Vec<PathBuf>,
    /// Disable colours
    #[arg(long, global = true, help_heading = MESSAGES, conflicts_with = "force_color", hide_short_help = true)]
    pub no_color: bool,
    /// Use colours even if the output is not a terminal
    #[arg(long, global = true, help_heading = MESSAGES, hide_short_help = true)]
    pub force_color: bool,
    /// Log operations to standard error; give it twice to log every request
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = MESSAGES, hide_short_help = true)]
    pub verbose: u8,
    /// Format of log lines [default: text]
    #[arg(long, global = true, value_name = "FORMAT", help_heading = MESSAGES, hide_short_help = true)]
    pub log_format: Option<LogFormat>,
}

impl GlobalArgs {
    /// Returns the same arguments, with `--all-namespaces` as the namespace that it means.
    pub(crate) fn with_all_namespaces(self) -> Self {
        match self.all_namespaces {
            true => Self { namespace: Some(Namespace::ALL.to_owned()), ..self },
            false => self,
        }
    }

    /// Returns true if the server is an agent inside this process.
    pub(crate) fn is_embedded(&self) -> bool {
        #[cfg(feature = "agent")]
        let embedded = self.embedded.is_some();
        #[cfg(not(feature = "agent"))]
        let embedded = false;
        embedded
    }
}

fn request_timeout(text: &str) -> Result<TimeSpan, String> {
    let timeout: TimeSpan = text.parse()?;
    match timeout.0.is_zero() {
        true => Err("the server needs some time to respond, such as 5s".to_owned()),
        false => Ok(timeout),
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}
