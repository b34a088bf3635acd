//! Typed settings from flags, environment variables and the selected cluster. A flag overrides its
//! variable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{GlobalArgs, LogFormat, RedactedText as Secret};
use super::cluster_contexts::{SelectedBy, SelectedCluster};
#[cfg(feature = "agent")]
use super::embedded::{EmbeddedTarget, embedded_config};
use super::env::{Environment, NotUtf8, Variable};
use super::error::CliError;
#[cfg(unix)]
use super::operator_token::add_operator_token;
use crate::telemetry::{LogFormat as LineFormat, LogLevel, LogSettings};
use nomad_csi_client::files::ClusterContext;
use nomad_csi_client::nomad::{
    ClientSettings, ProxySettings, RedactedString, ResponseLimits, SlowResponseObserver,
    TlsSettings,
};
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// The server that a command connects to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A server over HTTP.
    Cluster(Box<ClientSettings>),
    /// An agent inside this process.
    #[cfg(feature = "agent")]
    Embedded(Box<EmbeddedTarget>),
}

impl Target {
    /// Lets `observer` know of a response that takes long.
    pub(super) fn observe_slow_responses(&mut self, observer: Arc<dyn SlowResponseObserver>) {
        let settings = match self {
            Self::Cluster(settings) => settings.as_mut(),
            #[cfg(feature = "agent")]
            Self::Embedded(embedded) => &mut embedded.settings,
        };
        settings.slow_responses = Some(observer);
    }
}

impl From<NotUtf8> for CliError {
    fn from(error: NotUtf8) -> Self {
        Diagnostic::error(Code::CliInvalidValue, error.to_string())
            .help(format!("set {} to UTF-8 text, or unset it", error.0.name()))
            .into()
    }
}

/// Returns the server of a command. Relative paths start from `directory`.
///
/// # Errors
/// Fails if a variable is not UTF-8, the token of the selected cluster cannot be read, or no variable
/// names the directory of the embedded agent.
#[cfg_attr(
    not(feature = "agent"),
    expect(unused_variables, reason = "only the embedded agent needs the directory")
)]
pub(super) fn server_target(
    global: &GlobalArgs,
    environment: &Environment,
    directory: &Path,
    chosen: Option<&SelectedCluster>,
) -> Result<Target, CliError> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "no agent leaves a token"))]
    let mut settings = cluster_settings(global, environment, chosen)?;
    #[cfg(feature = "agent")]
    if let Some(named) = &global.embedded {
        let agent = embedded_config(Path::new(named), directory, environment)?;
        return Ok(Target::Embedded(Box::new(EmbeddedTarget { agent, settings })));
    }
    #[cfg(unix)]
    add_operator_token(&mut settings, environment);
    Ok(Target::Cluster(Box::new(settings)))
}

/// The sources of a setting. A flag takes precedence; [`SelectedCluster::prefer`] orders the others.
struct Layers<'l> {
    environment: &'l Environment,
    chosen: Option<&'l SelectedCluster>,
}

impl Layers<'_> {
    fn merge<T>(&self, of_context: fn(&ClusterContext) -> Option<T>, own: Option<T>) -> Option<T> {
        match self.chosen {
            Some(chosen) => chosen.prefer(of_context(&chosen.cluster), own),
            None => own,
        }
    }

    fn text(
        &self,
        flag: Option<&String>,
        of_context: fn(&ClusterContext) -> Option<String>,
        variable: Variable,
    ) -> Result<Option<String>, NotUtf8> {
        if let Some(flag) = flag {
            return Ok(Some(flag.clone()));
        }
        let own = self.environment.text(variable)?.map(str::to_owned);
        Ok(self.merge(of_context, own))
    }

    fn path(
        &self,
        flag: Option<&PathBuf>,
        of_context: fn(&ClusterContext) -> Option<PathBuf>,
        variable: Variable,
    ) -> Option<PathBuf> {
        let own = || self.merge(of_context, self.environment.path(variable));
        flag.cloned().or_else(own)
    }

    /// Returns the token. Looks up the token of the selected cluster only if no other takes precedence.
    fn token(&self, flag: Option<&Secret>) -> Result<Option<RedactedString>, CliError> {
        if let Some(token) = flag {
            return Ok(Some(RedactedString::new(token.0.as_str())));
        }
        let own = self.environment.text(Variable::Token)?.map(RedactedString::new);
        match (self.chosen, own) {
            (None, own) => Ok(own),
            (Some(chosen), Some(own)) if chosen.selected_by == SelectedBy::ContextUse => {
                Ok(Some(own))
            }
            (Some(chosen), own) => Ok(chosen.token(self.environment)?.or(own)),
        }
    }
}

fn cluster_settings(
    global: &GlobalArgs,
    environment: &Environment,
    chosen: Option<&SelectedCluster>,
) -> Result<ClientSettings, CliError> {
    let layers = Layers { environment, chosen };
    let hidden = |variable| -> Result<Option<RedactedString>, NotUtf8> {
        Ok(environment.text(variable)?.map(RedactedString::new))
    };
    let address = layers
        .text(global.address.as_ref(), |context| Some(context.address.clone()), Variable::Address)?
        .unwrap_or_else(|| ClientSettings::DEFAULT_ADDRESS.to_owned());
    let region =
        layers.text(global.region.as_ref(), |context| context.region.clone(), Variable::Region)?;
    Ok(ClientSettings {
        name: None,
        address: RedactedString::new(address),
        host_address: None,
        region,
        namespace: namespace(global, environment, chosen)?.map(|namespace| namespace.to_string()),
        token: layers.token(global.token.as_ref())?,
        token_source: None,
        http_auth: hidden(Variable::HttpAuth)?,
        tls: tls_settings(global, &layers)?,
        proxies: ProxySettings {
            http: hidden(Variable::HttpProxy)?,
            https: hidden(Variable::HttpsProxy)?,
            no_proxy: environment.text(Variable::NoProxy)?.map(str::to_owned),
        },
        limits: response_limits(global, environment)?,
        request_timeout: global.request_timeout.map(|timeout| timeout.0),
        slow_responses: None,
    })
}

/// Returns the limits of responses: those of the variable, then those of the flag.
fn response_limits(
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<ResponseLimits, CliError> {
    let own = environment.text(Variable::ResponseLimits)?;
    let own = own.into_iter().flat_map(|text| text.split(','));
    let typed = global.response_limit.iter().map(String::as_str);
    let mut limits = ResponseLimits::default();
    for text in own.map(str::trim).chain(typed) {
        if let Err(why) = limits.set(text) {
            let message = format!("cannot set the limit `{text}`: {why}");
            let help = "`docs/security.md` lists the limits of responses";
            return Err(Diagnostic::error(Code::CliInvalidValue, message).help(help).into());
        }
    }
    Ok(limits)
}

fn tls_settings(global: &GlobalArgs, layers: &Layers<'_>) -> Result<TlsSettings, CliError> {
    let skip_verify = layers.environment.text(Variable::SkipVerify)?;
    let skip_verify =
        layers.merge(|context| context.tls_skip_verify, skip_verify.and_then(parse_bool));
    Ok(TlsSettings {
        ca_file: layers.path(
            global.ca_cert.as_ref(),
            |context| context.ca_cert.clone(),
            Variable::CaCert,
        ),
        ca_directory: layers.path(
            global.ca_path.as_ref(),
            |context| context.ca_path.clone(),
            Variable::CaPath,
        ),
        client_certificate: layers.path(
            global.client_cert.as_ref(),
            |context| context.client_cert.clone(),
            Variable::ClientCert,
        ),
        client_key: layers.path(
            global.client_key.as_ref(),
            |context| context.client_key.clone(),
            Variable::ClientKey,
        ),
        server_name: layers.text(
            global.tls_server_name.as_ref(),
            |context| context.tls_server_name.clone(),
            Variable::TlsServerName,
        )?,
        skip_verify: global.tls_skip_verify.or(skip_verify).unwrap_or(false),
    })
}

/// Parses a boolean like Go's `ParseBool`. Ignores other text, as Nomad's CLI does.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Returns the namespace from a flag, the environment or the selected cluster, if given.
///
/// # Errors
/// Fails if the variable is not UTF-8.
pub(super) fn namespace(
    global: &GlobalArgs,
    environment: &Environment,
    chosen: Option<&SelectedCluster>,
) -> Result<Option<Namespace>, NotUtf8> {
    let layers = Layers { environment, chosen };
    let typed = global.namespace.as_ref().filter(|typed| !typed.is_empty());
    let named = layers.text(typed, |context| context.namespace.clone(), Variable::Namespace)?;
    Ok(named.map(Namespace::new))
}

/// Returns true if a stream uses colours. As in Nomad's CLI, disabling overrides forcing.
pub(super) fn uses_colour(
    global: &GlobalArgs,
    environment: &Environment,
    is_terminal: bool,
) -> bool {
    let dumb = matches!(environment.text(Variable::Terminal), Ok(Some("dumb")));
    let forbidden = global.no_color
        || environment.is_set(Variable::NomadNoColor)
        || (environment.is_set(Variable::NoColor) && !global.force_color);
    let forced = global.force_color || environment.is_set(Variable::NomadForceColor);
    !forbidden && (forced || (is_terminal && !dumb))
}

/// The widest help, in columns.
pub(super) const HELP_WIDTH: usize = 100;

/// Returns the width of the output: COLUMNS, else the terminal width, else a width for logs.
pub(super) fn output_width(environment: &Environment, terminal: Option<usize>) -> usize {
    const NO_TERMINAL: usize = 120;
    let set = environment.text(Variable::Columns).ok().flatten();
    set.and_then(|text| text.parse().ok())
        .filter(|columns| *columns >= 20)
        .or(terminal)
        .unwrap_or(NO_TERMINAL)
}

/// Returns the log settings: NOMAD_CSI_LOG without `-v`, else the command's `base` level raised by `-v`.
///
/// # Errors
/// Fails if a variable is not UTF-8 or names an unknown format.
pub(super) fn log_settings(
    global: &GlobalArgs,
    environment: &Environment,
    base: LogLevel,
) -> Result<LogSettings, CliError> {
    let filter = environment.text(Variable::Log)?.filter(|_| global.verbose == 0);
    let format = match (global.log_format, environment.text(Variable::LogFormat)?) {
        (Some(format), _) => format,
        (None, None | Some("text")) => LogFormat::Text,
        (None, Some("json")) => LogFormat::Json,
        (None, Some(other)) => {
            let message = format!("unknown log format `{other}` in {}", Variable::LogFormat.name());
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("set it to `text` or `json`, or unset it")
                .into());
        }
    };
    Ok(LogSettings {
        level: base.raised(global.verbose),
        filter: filter.map(str::to_owned),
        format: match format {
            LogFormat::Text => LineFormat::Text,
            LogFormat::Json => LineFormat::Json,
        },
        colours: true,
    })
}

#[cfg(test)]
mod tests;
