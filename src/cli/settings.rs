//! Flags and environment, joined once into typed settings; a flag wins over its variable.

use std::path::{Path, PathBuf};

use super::args::{Global, Hidden as Secret, LogFormat};
use super::contexts::{Chosen, NamedBy};
use super::env::{Environment, NotText, Variable};
use super::error::CliError;
#[cfg(feature = "agent")]
use crate::agent::{AgentConfig, embedded_directory};
use crate::diagnostic::{Code, Diagnostic};
use crate::files::ClusterContext;
use crate::model::Namespace;
use crate::nomad::{Hidden, ProxySettings, Settings, TlsSettings};
use crate::telemetry::{LogFormat as LineFormat, LogLevel, LogSettings};

/// The server that is meant.
#[derive(Clone, Debug)]
pub enum Target {
    /// One that is reached over HTTP.
    Cluster(Box<Settings>),
    /// An agent inside this process.
    #[cfg(feature = "agent")]
    Embedded(Box<Embedding>),
}

/// The agent of one command, and what is asked of it.
#[cfg(feature = "agent")]
#[derive(Clone, Debug)]
pub struct Embedding {
    /// The agent.
    pub agent: AgentConfig,
    /// What else the command line says of requests; the address is the agent's.
    pub settings: Settings,
}

impl From<NotText> for CliError {
    fn from(error: NotText) -> Self {
        Diagnostic::error(Code::CliInvalidValue, error.to_string())
            .help(format!(
                "set {} to text in UTF-8, or unset it",
                error.0.name()
            ))
            .into()
    }
}

/// The server that is meant; relative paths start from `directory`.
///
/// # Errors
/// If a variable is no text, the context's token cannot be had, or nothing says where the embedded
/// agent lives.
#[cfg_attr(
    not(feature = "agent"),
    expect(
        unused_variables,
        reason = "only the embedded agent lives in a directory"
    )
)]
pub(super) fn target(
    global: &Global,
    environment: &Environment,
    directory: &Path,
    chosen: Option<&Chosen>,
) -> Result<Target, CliError> {
    let settings = cluster(global, environment, chosen)?;
    #[cfg(feature = "agent")]
    if let Some(named) = &global.embedded {
        let agent = embedded(Path::new(named), directory, environment)?;
        return Ok(Target::Embedded(Box::new(Embedding { agent, settings })));
    }
    Ok(Target::Cluster(Box::new(settings)))
}

#[cfg(feature = "agent")]
fn embedded(
    named: &Path,
    directory: &Path,
    environment: &Environment,
) -> Result<AgentConfig, CliError> {
    let state_home = environment.path(Variable::StateHome);
    let home = environment.path(Variable::Home);
    let state = embedded_directory(Some(named), state_home.as_deref(), home.as_deref())?;
    let runtime_dir = environment.path(Variable::RuntimeDir);
    Ok(AgentConfig::embedded(directory.join(state), runtime_dir)?)
}

/// Flags win; of environment and context, [`Chosen::or`] says which.
struct Layers<'l> {
    environment: &'l Environment,
    chosen: Option<&'l Chosen>,
}

impl Layers<'_> {
    fn join<T>(&self, of_context: fn(&ClusterContext) -> Option<T>, own: Option<T>) -> Option<T> {
        match self.chosen {
            Some(chosen) => chosen.or(of_context(&chosen.cluster), own),
            None => own,
        }
    }

    fn text(
        &self,
        flag: Option<&String>,
        of_context: fn(&ClusterContext) -> Option<String>,
        variable: Variable,
    ) -> Result<Option<String>, NotText> {
        if let Some(flag) = flag {
            return Ok(Some(flag.clone()));
        }
        let own = self.environment.text(variable)?.map(str::to_owned);
        Ok(self.join(of_context, own))
    }

    fn path(
        &self,
        flag: Option<&PathBuf>,
        of_context: fn(&ClusterContext) -> Option<PathBuf>,
        variable: Variable,
    ) -> Option<PathBuf> {
        let own = || self.join(of_context, self.environment.path(variable));
        flag.cloned().or_else(own)
    }

    /// A reference is followed only if its token is the one that holds.
    fn token(&self, flag: Option<&Secret>) -> Result<Option<Hidden>, CliError> {
        if let Some(token) = flag {
            return Ok(Some(Hidden::new(token.0.as_str())));
        }
        let own = self.environment.text(Variable::Token)?.map(Hidden::new);
        match (self.chosen, own) {
            (None, own) => Ok(own),
            (Some(chosen), Some(own)) if chosen.by == NamedBy::Choice => Ok(Some(own)),
            (Some(chosen), own) => Ok(chosen.token(self.environment)?.or(own)),
        }
    }
}

fn cluster(
    global: &Global,
    environment: &Environment,
    chosen: Option<&Chosen>,
) -> Result<Settings, CliError> {
    let layers = Layers {
        environment,
        chosen,
    };
    let hidden = |variable| -> Result<Option<Hidden>, NotText> {
        Ok(environment.text(variable)?.map(Hidden::new))
    };
    let address = layers
        .text(
            global.address.as_ref(),
            |context| Some(context.address.clone()),
            Variable::Address,
        )?
        .unwrap_or_else(|| Settings::DEFAULT_ADDRESS.to_owned());
    let region = layers.text(
        global.region.as_ref(),
        |context| context.region.clone(),
        Variable::Region,
    )?;
    Ok(Settings {
        name: None,
        address: Hidden::new(address),
        region,
        namespace: namespace(global, environment, chosen)?.map(|namespace| namespace.to_string()),
        token: layers.token(global.token.as_ref())?,
        http_auth: hidden(Variable::HttpAuth)?,
        tls: tls(global, &layers)?,
        proxies: ProxySettings {
            http: hidden(Variable::HttpProxy)?,
            https: hidden(Variable::HttpsProxy)?,
            none_for: environment.text(Variable::NoProxy)?.map(str::to_owned),
        },
    })
}

fn tls(global: &Global, layers: &Layers<'_>) -> Result<TlsSettings, CliError> {
    let skip_verify = layers.environment.text(Variable::SkipVerify)?;
    let skip_verify = layers.join(
        |context| context.tls_skip_verify,
        skip_verify.and_then(boolean),
    );
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

/// As Go's `ParseBool` reads it; other text is ignored, as by Nomad's CLI (`nomad-http-api` 2.2).
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The namespace that was asked for, if one was.
///
/// # Errors
/// If the variable is no text.
pub(super) fn namespace(
    global: &Global,
    environment: &Environment,
    chosen: Option<&Chosen>,
) -> Result<Option<Namespace>, NotText> {
    let layers = Layers {
        environment,
        chosen,
    };
    let typed = global.namespace.as_ref().filter(|typed| !typed.is_empty());
    let named = layers.text(
        typed,
        |context| context.namespace.clone(),
        Variable::Namespace,
    )?;
    Ok(named.map(Namespace::new))
}

/// Whether a stream is written in colour. Forbidding beats forcing (`nomad-http-api` 2.2).
pub(super) fn colour(global: &Global, environment: &Environment, is_terminal: bool) -> bool {
    let dumb = matches!(environment.text(Variable::Terminal), Ok(Some("dumb")));
    let forbidden = global.no_color
        || environment.is_set(Variable::NomadNoColor)
        || (environment.is_set(Variable::NoColor) && !global.force_color);
    let forced = global.force_color || environment.is_set(Variable::NomadForceColor);
    !forbidden && (forced || (is_terminal && !dumb))
}

/// How wide to format: COLUMNS, else the terminal, else wide enough for a log.
pub(super) fn columns(environment: &Environment, terminal: Option<usize>) -> usize {
    const NO_TERMINAL: usize = 120;
    let set = environment.text(Variable::Columns).ok().flatten();
    set.and_then(|text| text.parse().ok())
        .filter(|columns| *columns >= 20)
        .or(terminal)
        .unwrap_or(NO_TERMINAL)
}

/// What is logged: NOMAD_CSI_LOG, unless `-v` was said; `base` is the command's own level.
///
/// # Errors
/// If a variable is no text, or names no format.
pub(super) fn log(
    global: &Global,
    environment: &Environment,
    base: LogLevel,
) -> Result<LogSettings, CliError> {
    let filter = environment
        .text(Variable::Log)?
        .filter(|_| global.verbose == 0);
    let format = match (global.log_format, environment.text(Variable::LogFormat)?) {
        (Some(format), _) => format,
        (None, None | Some("text")) => LogFormat::Text,
        (None, Some("json")) => LogFormat::Json,
        (None, Some(other)) => {
            let message = format!("{} is `{other}`", Variable::LogFormat.name());
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
