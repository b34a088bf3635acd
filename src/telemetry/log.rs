//! Log lines: which, in which form, where to.
//!
//! The log is talk, not data: it goes to whatever writer the caller hands over, which is standard
//! error, or one that keeps out of the way of moving progress lines. Nothing here reads the
//! environment. What must not be logged is not made safe here: types that hold secrets have no
//! `Debug` that shows them.

use std::str::FromStr as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// How much is logged of this program; of the libraries below it only warnings, down to
/// [`LogLevel::Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What somebody should look at.
    Warn,
    /// What an operator would tell a colleague.
    Info,
    /// Calls, and what tasks write.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    const ALL: [Self; 4] = [Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// This level, and one more for each `-v`.
    #[must_use]
    pub fn raised(self, by: u8) -> Self {
        let wanted = Self::ALL.iter().skip_while(|level| **level != self);
        *wanted
            .take(usize::from(by) + 1)
            .last()
            .unwrap_or(&Self::Trace)
    }

    /// The directives that it stands for.
    fn directives(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Info => "warn,nomad_csi=info",
            Self::Debug => "warn,nomad_csi=debug",
            Self::Trace => "trace",
        }
    }
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Unless a filter is given.
    pub level: LogLevel,
    /// Directives such as `debug` or `nomad_csi::server=debug,warn`; they replace the level.
    pub filter: Option<String>,
    /// How lines look.
    pub format: LogFormat,
    /// Whether text may have colours.
    pub colours: bool,
}

/// Logs to `writer` from now on, for the whole process. A second call changes nothing.
///
/// # Errors
/// If the filter is none.
pub fn start<W>(settings: &LogSettings, writer: W) -> Result<(), Diagnostics>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let registry = tracing_subscriber::registry().with(filter(settings)?);
    // A reader who has gone away must not end the program.
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .log_internal_errors(false);
    let started = match settings.format {
        LogFormat::Text => registry
            .with(layer.with_ansi(settings.colours).with_target(false))
            .try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
    if started.is_err() {
        tracing::debug!("the log was started before");
    }
    Ok(())
}

fn filter(settings: &LogSettings) -> Result<EnvFilter, Diagnostics> {
    let directives = settings
        .filter
        .as_deref()
        .unwrap_or(settings.level.directives());
    EnvFilter::from_str(directives).map_err(|error| {
        Diagnostic::error(Code::LogBadFilter, format!("the log filter `{directives}` cannot be read"))
            .note(error.to_string())
            .help("write a level (`warn`, `info`, `debug`, `trace`) or a list such as `warn,nomad_csi::server=debug`")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
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
        let subscriber = tracing_subscriber::registry()
            .with(filter(settings).unwrap())
            .with(
                tracing_subscriber::fmt::layer()
                    .with_writer(move || sink.clone())
                    .with_ansi(false),
            );
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
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
    fn libraries_are_quiet_while_we_talk() {
        let talk = || {
            tracing::debug!(target: "nomad_csi::server", "ours");
            tracing::info!(target: "hyper", "theirs");
            tracing::warn!(target: "hyper", "their warning");
        };
        let said = |level, filter| written(&settings(level, filter), talk);
        let debug = said(LogLevel::Debug, None);
        assert!(
            debug.contains("ours") && debug.contains("their warning"),
            "{debug}"
        );
        assert!(!debug.contains("theirs"), "{debug}");
        assert!(!said(LogLevel::Info, None).contains("ours"));
        let filtered = said(LogLevel::Debug, Some("hyper=info"));
        assert!(
            filtered.contains("theirs") && !filtered.contains("ours"),
            "{filtered}"
        );
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_an_error() {
        let error = filter(&settings(LogLevel::Info, Some("nomad_csi=loud"))).unwrap_err();
        assert_eq!(error.iter().next().unwrap().code, Code::LogBadFilter);
    }
}
