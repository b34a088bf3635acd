//! Log levels, formats and filters.
//!
//! The caller passes the writer, such as standard error or a writer that does not disturb progress
//! output. Nothing here reads the environment. The log does not redact: types with secrets have no
//! `Debug` that shows them.

use std::str::FromStr as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// The log level of this program. Libraries log warnings only, except at [`LogLevel::Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Problems that need attention.
    Warn,
    /// Important events.
    Info,
    /// Calls, and the output of tasks.
    Debug,
    /// Everything, including libraries.
    Trace,
}

impl LogLevel {
    const ALL: [Self; 4] = [Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Returns this level raised by one for each `-v`.
    #[must_use]
    pub fn raised(self, by: u8) -> Self {
        let desired = Self::ALL.iter().skip_while(|level| **level != self);
        *desired.take(usize::from(by) + 1).last().unwrap_or(&Self::Trace)
    }

    /// Returns the filter directives of this level.
    fn directives(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Info => "warn,nomad_csi=info",
            Self::Debug => "warn,nomad_csi=debug",
            Self::Trace => "trace",
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The settings of the log.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// The level, unless there is a filter.
    pub level: LogLevel,
    /// Directives such as `debug` or `nomad_csi_server=debug,warn`, which replace the level.
    pub filter: Option<String>,
    /// The format of log lines.
    pub format: LogFormat,
    /// True if text may have colours.
    pub colours: bool,
}

/// Starts logging to `writer` for the whole process. A second call has no effect.
///
/// # Errors
/// Fails if the filter is not valid.
pub fn init_logging<W>(settings: &LogSettings, writer: W) -> Result<(), Diagnostics>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let registry = tracing_subscriber::registry().with(filter(settings)?);
    // A closed output must not end the program.
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    let started = match settings.format {
        LogFormat::Text => {
            registry.with(layer.with_ansi(settings.colours).with_target(false)).try_init()
        }
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging is already initialized");
    }
    Ok(())
}

fn filter(settings: &LogSettings) -> Result<EnvFilter, Diagnostics> {
    let directives = settings.filter.as_deref().unwrap_or(settings.level.directives());
    EnvFilter::from_str(directives).map_err(|error| {
        Diagnostic::error(Code::LogBadFilter, format!("cannot parse the log filter `{directives}`"))
            .note(error.to_string())
            .help("write a level (`warn`, `info`, `debug`, `trace`) or a list such as `warn,nomad_csi_server=debug`")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A writer into memory.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn settings(level: LogLevel, filter: Option<&str>) -> LogSettings {
        LogSettings {
            level,
            filter: filter.map(Into::into),
            format: LogFormat::Text,
            colours: false,
        }
    }

    fn written(settings: &LogSettings, log: impl Fn()) -> String {
        let lines = Lines::default();
        let sink = lines.clone();
        let subscriber = tracing_subscriber::registry().with(filter(settings).unwrap()).with(
            tracing_subscriber::fmt::layer().with_writer(move || sink.clone()).with_ansi(false),
        );
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(lines.0.lock().clone()).unwrap()
    }

    #[test]
    fn each_v_raises_the_level_by_one() {
        for (from, by, to) in [
            (LogLevel::Warn, 0, LogLevel::Warn),
            (LogLevel::Warn, 1, LogLevel::Info),
            (LogLevel::Info, 1, LogLevel::Debug),
            (LogLevel::Info, 9, LogLevel::Trace),
            (LogLevel::Trace, 255, LogLevel::Trace),
        ] {
            assert_eq!(from.raised(by), to, "{from:?} and {by}");
        }
    }

    #[test]
    fn libraries_log_warnings_only() {
        let log = || {
            tracing::debug!(target: "nomad_csi_server", "ours");
            tracing::info!(target: "hyper", "theirs");
            tracing::warn!(target: "hyper", "their warning");
        };
        let logged = |level, filter| written(&settings(level, filter), log);
        let debug = logged(LogLevel::Debug, None);
        assert!(debug.contains("ours") && debug.contains("their warning"), "{debug}");
        assert!(!debug.contains("theirs"), "{debug}");
        assert!(!logged(LogLevel::Info, None).contains("ours"));
        let filtered = logged(LogLevel::Debug, Some("hyper=info"));
        assert!(filtered.contains("theirs") && !filtered.contains("ours"), "{filtered}");
    }

    #[test]
    fn an_invalid_filter_is_an_error() {
        let error = filter(&settings(LogLevel::Info, Some("nomad_csi=loud"))).unwrap_err();
        assert_eq!(error.iter().next().unwrap().code, Code::LogBadFilter);
    }
}
