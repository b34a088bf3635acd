//! `--watch`: runs a query again when something changes, and shows what is different.
//!
//! Blocking queries say when to look again: the server responds when one of the topics changes. What is printed depends
//! only on the earlier output and the new one ([`Watched`]). A change that the output does not show prints nothing. A
//! server that does not hold a query is asked in intervals.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::time::{Instant, sleep};

use super::status::ask;
use crate::cli::args::WatchArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::server_outage::OutageLines;
use crate::cli::ui::{HeldOutput, OutputFormat};
use nomad_csi_client::ports::{ApiError, ClusterApi, ServerWait, WatchRequest, WatchTopic};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::escape_json;

/// The longest wait for a change: the ages in a table are not older than that.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The shortest time between two looks, so that a busy cluster is not asked all the time.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// The time between two looks if the server does not hold queries, or fails.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long a server may be away.
const LONGEST_OUTAGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How changes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Over the earlier output.
    InPlace,
    /// One JSON document per line.
    JsonLines,
    /// Below the earlier output.
    Below,
}

/// What to print after a look.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Replaces the screen.
    Screen(String),
    /// Follows what was printed before.
    Text(String),
}

/// The output of the last look.
#[derive(Debug)]
struct Watched {
    form: Form,
    last: Option<String>,
    /// The messages of the last look.
    said: String,
}

impl Watched {
    fn new(form: Form) -> Self {
        Self { form, last: None, said: String::new() }
    }

    /// Returns what to print after a look with this output.
    fn see(&mut self, results: &str, messages: &str) -> Change {
        let now = match self.form {
            Form::InPlace => format!("{results}{messages}"),
            Form::JsonLines => one_line_of_json(results),
            Form::Below => results.to_owned(),
        };
        if self.last.as_ref() == Some(&now) {
            return Change::Nothing;
        }
        self.last = Some(now.clone());
        match self.form {
            Form::InPlace => Change::Screen(now),
            Form::JsonLines | Form::Below if now.is_empty() => Change::Nothing,
            Form::JsonLines | Form::Below => Change::Text(now),
        }
    }

    /// Returns the messages of a look that are to be printed beside the results: those that are not in place and are new.
    fn say<'m>(&mut self, messages: &'m str) -> Option<&'m str> {
        let is_new = self.form != Form::InPlace && self.said != messages;
        messages.clone_into(&mut self.said);
        Some(messages.trim_end()).filter(|text| is_new && !text.is_empty())
    }
}

/// Returns a JSON document in one line. Text that is none stays as it is.
fn one_line_of_json(text: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(document) => format!("{}\n", escape_json(&document.to_string())),
        Err(_) => text.to_owned(),
    }
}

/// Looks once, or with `--watch` until an interrupt whenever one of the topics changes. Off a terminal, a table would be no
/// document: then a watch prints JSON.
///
/// # Errors
/// Those of a look: see [`watch`].
pub(super) async fn look_or_watch(
    context: &CommandContext,
    arguments: WatchArgs,
    output: &OutputFormat,
    topics: Vec<WatchTopic>,
    look: impl AsyncFn(&dyn ClusterApi, &OutputFormat) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    if !arguments.watch {
        return ask(context, async |api| look(api, output).await).await;
    }
    let json = OutputFormat::Json;
    let is_piped_table = output.is_text() && !context.printer.is_terminal();
    let output = if is_piped_table { &json } else { output };
    let is_json = matches!(output, OutputFormat::Json);
    watch(context, topics, is_json, async |api| look(api, output).await).await
}

/// Looks until an interrupt, and prints what changes.
///
/// # Errors
/// Those of the first look, and those that do not pass: an object that is gone, a right that was taken away.
pub(super) async fn watch(
    context: &CommandContext,
    topics: Vec<WatchTopic>,
    is_json: bool,
    look: impl AsyncFn(&dyn ClusterApi) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    let form = match (context.printer.can_redraw_results(), is_json) {
        (true, _) => Form::InPlace,
        (false, true) => Form::JsonLines,
        (false, false) => Form::Below,
    };
    ask(context, async |api| {
        let observer = Arc::new(OutageLines::new(Arc::clone(&context.printer)));
        let api = &*api.waiting(ServerWait { timeout: LONGEST_OUTAGE, observer });
        let mut watched = Watched::new(form);
        let mut waits = TopicWaits::begin(api, topics).await?;
        let mut is_failing = false;
        loop {
            let began = Instant::now();
            let held = HeldOutput::begin(&context.printer);
            let looked = look(api).await;
            let (results, messages) = held.take();
            match looked {
                Ok(_) => {
                    is_failing = false;
                    if let Some(text) = watched.say(&messages) {
                        context.printer.print_lines(text);
                    }
                    match watched.see(&results, &messages) {
                        Change::Nothing => {}
                        Change::Screen(text) => context.printer.replace_screen(&text),
                        Change::Text(text) => context.printer.print_result(&text),
                    }
                }
                Err(error) if watched.last.is_none() || !passes(&error) => return Err(error),
                Err(error) => report_once(context, &error, &mut is_failing),
            }
            if context.printer.is_result_closed() {
                return Ok(Exit::Done);
            }
            if is_failing || !waits.next(api).await {
                sleep(POLL_INTERVAL).await;
            }
            sleep(MIN_INTERVAL.saturating_sub(began.elapsed())).await;
        }
    })
    .await
}

/// Prints the first of several errors.
fn report_once(context: &CommandContext, error: &CliError, is_failing: &mut bool) {
    if std::mem::replace(is_failing, true) {
        return;
    }
    let why = error.diagnostics.iter().next().map(|one| one.message.clone()).unwrap_or_default();
    context.printer.print_status(&format!("{why}; trying again until the server responds"));
}

/// Returns whether an error can end by itself.
fn passes(error: &CliError) -> bool {
    let mut codes = error.diagnostics.iter().map(|one| one.code);
    codes.any(is_passing)
}

fn is_passing(code: Code) -> bool {
    const PASSING: [Code; 8] = [
        Code::ApiConnectionRefused,
        Code::ApiConnectionLost,
        Code::ApiUnreachable,
        Code::ApiTimeout,
        Code::ApiRateLimited,
        Code::ApiNoLeader,
        Code::ApiServerError,
        Code::ApiListChanged,
    ];
    PASSING.contains(&code)
}

/// The blocking queries of a watch.
struct TopicWaits(Vec<(WatchTopic, u64)>);

impl TopicWaits {
    /// Reads the index of each topic. A topic that the token cannot read is left out, unless it is the only one.
    async fn begin(api: &dyn ClusterApi, topics: Vec<WatchTopic>) -> Result<Self, ApiError> {
        let request = WatchRequest { index: None, max_wait: MAX_WAIT };
        let read = topics.iter().map(|topic| api.watch_topic(topic, request));
        let mut refused = None;
        let mut waits = vec![];
        for (topic, read) in topics.iter().zip(join_all(read).await) {
            match read {
                Ok(response) => waits.push((topic.clone(), response.index)),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) if waits.is_empty() => Err(error),
            Some(_) | None => Ok(Self(waits)),
        }
    }

    /// Waits until a topic changes, or as long as the server holds a query. Returns false if it holds none.
    async fn next(&mut self, api: &dyn ClusterApi) -> bool {
        let began = Instant::now();
        let waits = self.0.iter().map(|(topic, index)| {
            let request = WatchRequest { index: Some(*index), max_wait: MAX_WAIT };
            api.watch_topic(topic, request)
        });
        let (response, at, others) = select_all(waits).await;
        drop(others);
        let Ok(response) = response else {
            return false;
        };
        if let Some((_, index)) = self.0.get_mut(at) {
            *index = response.index;
        }
        response.changed || began.elapsed() >= MIN_INTERVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_one_line_of_json_per_change() {
        let mut watched = Watched::new(Form::JsonLines);
        let first = "[\n  {\n    \"ID\": \"db\",\n    \"A\": \"x y\"\n  }\n]\n";
        let line = Change::Text("[{\"ID\":\"db\",\"A\":\"x y\"}]\n".to_owned());
        assert_eq!(watched.see(first, ""), line);
        assert_eq!(watched.see(first, "a message is no change"), Change::Nothing);
        assert_eq!(watched.see("[]\n", ""), Change::Text("[]\n".to_owned()));
        assert_eq!(watched.see(first, ""), line, "also back to an earlier state");
    }

    /// A warning that a list is not complete must not be lost in a pipeline.
    #[test]
    fn messages_beside_a_pipe_are_said_once_as_long_as_they_are_the_same() {
        for form in [Form::JsonLines, Form::Below] {
            let mut watched = Watched::new(form);
            let said = ["", "warning: a\n", "warning: a\n", "", "warning: a\n", "warning: b\n"];
            let said = said.map(|messages| watched.say(messages));
            let (a, b) = (Some("warning: a"), Some("warning: b"));
            assert_eq!(said, [None, a, None, None, a, b], "{form:?}");
        }
        assert_eq!(Watched::new(Form::InPlace).say("warning: a\n"), None, "it is on the screen");
    }

    #[test]
    fn a_terminal_shows_results_and_messages_in_place_and_only_if_they_differ() {
        let mut watched = Watched::new(Form::InPlace);
        assert_eq!(watched.see("", "No claims\n"), Change::Screen("No claims\n".to_owned()));
        assert_eq!(watched.see("", "No claims\n"), Change::Nothing);
        assert_eq!(watched.see("ID\ndb\n", ""), Change::Screen("ID\ndb\n".to_owned()));
        assert_eq!(
            watched.see("", ""),
            Change::Screen(String::new()),
            "an empty screen is a change"
        );
    }

    #[test]
    fn other_formats_follow_what_was_printed() {
        let mut watched = Watched::new(Form::Below);
        assert_eq!(watched.see("db\n", ""), Change::Text("db\n".to_owned()));
        assert_eq!(watched.see("", "none"), Change::Nothing);
        assert_eq!(watched.see("db\n", ""), Change::Text("db\n".to_owned()));
    }

    #[test]
    fn an_outage_passes_and_a_refusal_does_not() {
        for (code, expected) in [
            (Code::ApiNoLeader, true),
            (Code::ApiServerError, true),
            (Code::ApiForbidden, false),
            (Code::VolumeNotFound, false),
            (Code::NamespaceUnknown, false),
        ] {
            assert_eq!(is_passing(code), expected, "{code}");
        }
    }
}
