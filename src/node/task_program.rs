//! The configuration of a task's driver: from the `config` block of a job to a [`DriverConfig`].
//!
//! Every setting is known or refused by name, because a setting without an effect would surprise in production. The
//! values arrive with their references replaced.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::task_run::{DriverConfig, MockScript, TaskProgram};
use nomad_csi_model::diagnostic::closest_match;
use nomad_csi_model::{GoDuration, Task};

type Config = Map<String, Value>;

const PROGRAM: &[&str] = &["args", "command", "work_dir"];
const MOCK: &[&str] =
    &["exit_code", "exit_signal", "kill_after", "run_for", "start_error", "stdout_string"];

/// Returns the configuration of a task's driver.
///
/// # Errors
/// Which setting is wrong and why, or that the agent has no such driver.
pub(super) fn driver_config(task: &Task, config: &Config) -> Result<DriverConfig, String> {
    let settings = Settings { driver: &task.driver, config };
    match task.driver.as_str() {
        "exec" if task.csi_plugin.is_some() => Ok(DriverConfig::ExecPlugin(settings.program()?)),
        "exec" => Ok(DriverConfig::Exec(settings.program()?)),
        "raw_exec" => Ok(DriverConfig::RawExec(settings.program()?)),
        "mock_driver" => Ok(DriverConfig::Mock(settings.script()?)),
        other => Err(format!("driver `{other}` has no known settings")),
    }
}

/// The settings of one task.
struct Settings<'a> {
    driver: &'a str,
    config: &'a Config,
}

impl Settings<'_> {
    fn program(&self) -> Result<TaskProgram, String> {
        self.refuse_unknown(PROGRAM)?;
        let command = self.text("command")?;
        let command = command
            .filter(|command| !command.is_empty())
            .ok_or_else(|| format!("driver `{}` requires `command` in `config`", self.driver))?;
        Ok(TaskProgram {
            command: PathBuf::from(command),
            arguments: self.texts("args")?,
            working_directory: self.text("work_dir")?.map(PathBuf::from),
        })
    }

    fn script(&self) -> Result<MockScript, String> {
        self.refuse_unknown(MOCK)?;
        Ok(MockScript {
            start_error: self.text("start_error")?,
            run_for: self.duration("run_for")?,
            kill_after: self.duration("kill_after")?,
            exit_code: self.number("exit_code")?.unwrap_or_default(),
            exit_signal: self.number("exit_signal")?.filter(|signal| *signal != 0),
            stdout: self.text("stdout_string")?.unwrap_or_default(),
        })
    }

    fn refuse_unknown(&self, known: &[&str]) -> Result<(), String> {
        let mut keys = self.config.keys();
        let Some(unknown) = keys.find(|key| !known.contains(&key.as_str())) else {
            return Ok(());
        };
        let hint = match closest_match(unknown, known.iter().copied()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => {
                let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                format!("it has {}", names.join(", "))
            }
        };
        let driver = self.driver;
        Err(format!(
            "`{unknown}` is not a setting of driver `{driver}` that this agent knows; {hint}"
        ))
    }

    /// Returns a text; `None` if it is not set. A number or a boolean becomes text, as in Nomad.
    fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.config.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => scalar(value).map(Some).ok_or_else(|| self.wrong_type(key, "a text")),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let wrong_type = || self.wrong_type(key, "a list of texts");
        match self.config.get(key) {
            None | Some(Value::Null) => Ok(vec![]),
            Some(Value::Array(items)) => {
                items.iter().map(|item| scalar(item).ok_or_else(wrong_type)).collect()
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                Err(wrong_type())
            }
        }
    }

    fn number(&self, key: &str) -> Result<Option<i32>, String> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let number = text.parse();
        number.map(Some).map_err(|_| self.wrong_type(key, "a number"))
    }

    fn duration(&self, key: &str) -> Result<Duration, String> {
        let Some(text) = self.text(key)? else {
            return Ok(Duration::ZERO);
        };
        let duration = GoDuration::parse(&text).ok().and_then(GoDuration::to_std);
        duration.ok_or_else(|| self.wrong_type(key, "a duration such as `30s`"))
    }

    fn wrong_type(&self, key: &str, expected: &str) -> String {
        format!("setting `{key}` of driver `{}` must be {expected}", self.driver)
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the names of the drivers of an agent for a message: `` `exec`, `raw_exec` ``.
pub(super) fn driver_names<T>(drivers: &BTreeMap<String, T>) -> String {
    let names: Vec<_> = drivers.keys().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nomad_csi_model::{CsiPluginConfig, CsiPluginType, JobType, RestartPolicy};

    fn decode(driver: &str, config: Value) -> Result<DriverConfig, String> {
        let task = Task::new("t", driver, RestartPolicy::of_type(JobType::Service));
        let Value::Object(config) = config else {
            return Err("not an object".to_owned());
        };
        driver_config(&task, &config)
    }

    #[test]
    fn programs_have_a_command_arguments_and_a_directory() {
        let config = json!({"command": "/bin/sh", "args": ["-c", 1, true], "work_dir": "/data"});
        let program = TaskProgram {
            command: "/bin/sh".into(),
            arguments: vec!["-c".into(), "1".into(), "true".into()],
            working_directory: Some("/data".into()),
        };
        let decoded = decode("exec", config.clone());
        assert_eq!(decoded, Ok(DriverConfig::Exec(program.clone())));
        let decoded = decode("raw_exec", config.clone());
        assert_eq!(decoded, Ok(DriverConfig::RawExec(program.clone())));
        let mut plugin = Task::new("t", "exec", RestartPolicy::of_type(JobType::System));
        plugin.csi_plugin = Some(CsiPluginConfig::new("p".into(), CsiPluginType::Monolith));
        let decoded = driver_config(&plugin, config.as_object().unwrap());
        assert_eq!(decoded, Ok(DriverConfig::ExecPlugin(program)));
    }

    #[test]
    fn a_mock_has_nomads_settings() {
        let config = json!({
            "run_for": "1m", "kill_after": "2s", "exit_code": 3, "exit_signal": "9", "stdout_string": "hi",
        });
        let script = MockScript {
            start_error: None,
            run_for: Duration::from_secs(60),
            kill_after: Duration::from_secs(2),
            exit_code: 3,
            exit_signal: Some(9),
            stdout: "hi".to_owned(),
        };
        assert_eq!(decode("mock_driver", config), Ok(DriverConfig::Mock(script)));
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        for (driver, config, expected) in [
            ("exec", json!({}), "driver `exec` requires `command` in `config`"),
            (
                "exec",
                json!({"command": "a", "comand": "b"}),
                "`comand` is not a setting of driver `exec` that this agent knows; did you mean `command`?",
            ),
            (
                "raw_exec",
                json!({"command": "a", "cap_add": []}),
                "`cap_add` is not a setting of driver `raw_exec` that this agent knows; it has `args`, `command`, \
                 `work_dir`",
            ),
            (
                "exec",
                json!({"command": "a", "args": "b"}),
                "setting `args` of driver `exec` must be a list of texts",
            ),
            (
                "exec",
                json!({"command": ["a"]}),
                "setting `command` of driver `exec` must be a text",
            ),
            (
                "mock_driver",
                json!({"run_for": "soon"}),
                "setting `run_for` of driver `mock_driver` must be a duration such as `30s`",
            ),
            (
                "mock_driver",
                json!({"exit_code": "x"}),
                "setting `exit_code` of driver `mock_driver` must be a number",
            ),
            ("docker", json!({}), "driver `docker` has no known settings"),
        ] {
            assert_eq!(decode(driver, config), Err(expected.to_owned()));
        }
    }
}
