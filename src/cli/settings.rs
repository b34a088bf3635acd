//! Flags and environment, joined once into typed settings; a flag wins over its variable.

use std::path::Path;

use super::args::{Global, LogFormat};
use super::env::{Environment, NotText, Variable};
use super::error::CliError;
#[cfg(feature = "agent")]
use crate::agent::{AgentConfig, embedded_directory};
use crate::diagnostic::{Code, Diagnostic};
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
/// If a variable is no text, or nothing says where the embedded agent lives.
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
) -> Result<Target, CliError> {
    let settings = cluster(global, environment)?;
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

fn cluster(global: &Global, environment: &Environment) -> Result<Settings, CliError> {
    let text = |flag: &Option<String>, variable: Variable| -> Result<Option<String>, NotText> {
        match flag {
            Some(flag) => Ok(Some(flag.clone())),
            None => Ok(environment.text(variable)?.map(str::to_owned)),
        }
    };
    let hidden = |variable| -> Result<Option<Hidden>, NotText> {
        Ok(environment.text(variable)?.map(Hidden::new))
    };
    let address = text(&global.address, Variable::Address)?
        .unwrap_or_else(|| Settings::DEFAULT_ADDRESS.to_owned());
    let token = match &global.token {
        Some(token) => Some(Hidden::new(token.0.as_str())),
        None => hidden(Variable::Token)?,
    };
    Ok(Settings {
        name: None,
        address: Hidden::new(address),
        region: text(&global.region, Variable::Region)?,
        namespace: namespace(global, environment)?.map(|namespace| namespace.to_string()),
        token,
        http_auth: hidden(Variable::HttpAuth)?,
        tls: tls(global, environment)?,
        proxies: ProxySettings {
            http: hidden(Variable::HttpProxy)?,
            https: hidden(Variable::HttpsProxy)?,
            none_for: environment.text(Variable::NoProxy)?.map(str::to_owned),
        },
    })
}

fn tls(global: &Global, environment: &Environment) -> Result<TlsSettings, CliError> {
    let path = |flag: &Option<std::path::PathBuf>, variable| {
        flag.clone().or_else(|| environment.path(variable))
    };
    let server_name = match &global.tls_server_name {
        Some(name) => Some(name.clone()),
        None => environment
            .text(Variable::TlsServerName)?
            .map(str::to_owned),
    };
    let skip_verify = environment.text(Variable::SkipVerify)?.is_some_and(is_true);
    Ok(TlsSettings {
        ca_file: path(&global.ca_cert, Variable::CaCert),
        ca_directory: path(&global.ca_path, Variable::CaPath),
        client_certificate: path(&global.client_cert, Variable::ClientCert),
        client_key: path(&global.client_key, Variable::ClientKey),
        server_name,
        skip_verify: global.tls_skip_verify || skip_verify,
    })
}

/// What Go's `ParseBool` takes for true; other text is ignored, as by Nomad's CLI
/// (`nomad-http-api` 2.2).
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// The namespace that was asked for, if one was.
///
/// # Errors
/// If the variable is no text.
pub(super) fn namespace(
    global: &Global,
    environment: &Environment,
) -> Result<Option<Namespace>, NotText> {
    let named = match &global.namespace {
        Some(named) if !named.is_empty() => Some(named.as_str()),
        Some(_) | None => environment.text(Variable::Namespace)?,
    };
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
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().copied().collect()
    }

    #[test]
    fn forbidding_colours_beats_forcing_them() {
        let plain = Global::default();
        let forced = Global {
            force_color: true,
            ..Global::default()
        };
        let forbidden = Global {
            no_color: true,
            ..Global::default()
        };
        for (global, pairs, is_terminal, expected) in [
            (&plain, &[][..], true, true),
            (&plain, &[], false, false),
            (&plain, &[("TERM", "dumb")], true, false),
            (&plain, &[("NO_COLOR", "1")], true, false),
            (&plain, &[("NO_COLOR", "")], true, true),
            (
                &plain,
                &[("NOMAD_CLI_NO_COLOR", "1"), ("NOMAD_CLI_FORCE_COLOR", "1")],
                true,
                false,
            ),
            (&plain, &[("NOMAD_CLI_FORCE_COLOR", "1")], false, true),
            (&forced, &[], false, true),
            (&forced, &[("NO_COLOR", "1")], false, true),
            (&forced, &[("NOMAD_CLI_NO_COLOR", "1")], false, false),
            (&forbidden, &[("NOMAD_CLI_FORCE_COLOR", "1")], true, false),
        ] {
            assert_eq!(
                colour(global, &environment(pairs), is_terminal),
                expected,
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn a_flag_wins_over_its_variable_and_empty_counts_as_unset() {
        let pairs = [
            ("NOMAD_ADDR", "http://env:1"),
            ("NOMAD_TOKEN", "from-env"),
            ("NOMAD_NAMESPACE", "env"),
            ("NOMAD_REGION", ""),
            ("NOMAD_SKIP_VERIFY", "yes"),
        ];
        let flags = Global {
            address: Some("http://flag:2".into()),
            namespace: Some("flag".into()),
            ..Global::default()
        };
        let settings = cluster(&flags, &environment(&pairs)).expect("all is text");
        assert_eq!(settings.address.expose(), "http://flag:2");
        assert_eq!(settings.namespace.as_deref(), Some("flag"));
        assert_eq!(
            settings.token.as_ref().map(Hidden::expose),
            Some("from-env")
        );
        assert_eq!(settings.region, None);
        assert!(!settings.tls.skip_verify, "`yes` is no boolean for Nomad");
        let settings = cluster(&Global::default(), &environment(&[])).expect("nothing is wrong");
        assert_eq!(settings.address.expose(), "http://127.0.0.1:4646");
    }

    #[test]
    fn a_width_that_makes_no_sense_is_ignored() {
        for (set, terminal, expected) in [
            ("100", Some(80), 100),
            ("3", Some(80), 80),
            ("wide", None, 120),
        ] {
            assert_eq!(
                columns(&environment(&[("COLUMNS", set)]), terminal),
                expected,
                "{set}"
            );
        }
    }
}
