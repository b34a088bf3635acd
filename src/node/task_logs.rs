//! Reads the output of tasks across their runs and the files of each run.
//!
//! Every call lists the files again: a restart adds a run, a rotation removes the oldest file. Which position comes next
//! is decided from such a list alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use super::alloc_directory::{AllocDirectory, TaskDirectory};
use crate::task_run::{LogSlice, RunDriver};
use nomad_csi_ports::{
    LogChunk, LogOrigin, LogPosition, TaskLogError, TaskLogs, TaskOutput, run_blocking,
};

/// How often an output is examined that someone follows.
const PERIOD: Duration = Duration::from_millis(200);

/// A file of an output: its start and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OutputFile {
    start: LogPosition,
    size: u64,
}

/// The output of the tasks of this node.
pub struct NodeTaskLogs {
    data_directory: PathBuf,
    drivers: BTreeMap<String, Arc<dyn RunDriver>>,
}

impl NodeTaskLogs {
    /// Reads what these drivers keep below the agent's data directory.
    pub fn new(data_directory: PathBuf, drivers: BTreeMap<String, Arc<dyn RunDriver>>) -> Self {
        Self { data_directory, drivers }
    }

    fn directory(&self, output: &TaskOutput) -> TaskDirectory {
        AllocDirectory::new(&self.data_directory, &output.alloc).task(&output.task)
    }

    /// Returns the driver of a task and the numbers of its runs; `None` before its first run.
    async fn runs(
        &self,
        output: &TaskOutput,
    ) -> Result<Option<(&dyn RunDriver, Vec<u32>)>, TaskLogError> {
        let directory = self.directory(output);
        let found = run_blocking(move || Ok((directory.read_record()?, directory.runs()?))).await;
        let (record, runs) = found.map_err(|error| failed(output, &error))?;
        let driver = record.and_then(|record| self.drivers.get(&record.driver));
        Ok(driver.map(|driver| (&**driver, runs)))
    }

    /// Returns the files of an output from a run on, oldest first.
    async fn files(
        &self,
        output: &TaskOutput,
        first: u32,
    ) -> Result<Vec<OutputFile>, TaskLogError> {
        let Some((driver, runs)) = self.runs(output).await? else {
            return Ok(vec![]);
        };
        let directory = self.directory(output);
        let mut files = vec![];
        for run in runs.into_iter().filter(|run| *run >= first) {
            let listed = driver.log_files(&directory.run(run), output.stream).await;
            let listed = listed.map_err(|error| failed(output, &error))?;
            files.extend(listed.into_iter().map(|file| OutputFile {
                start: LogPosition { run, file: file.number, offset: 0 },
                size: file.size,
            }));
        }
        Ok(files)
    }
}

#[async_trait]
impl TaskLogs for NodeTaskLogs {
    async fn has_files(&self, output: &TaskOutput) -> Result<bool, TaskLogError> {
        let directory = AllocDirectory::new(&self.data_directory, &output.alloc);
        let found = run_blocking(move || directory.path().try_exists()).await;
        found.map_err(|error| failed(output, &error))
    }

    async fn locate(
        &self,
        output: &TaskOutput,
        origin: LogOrigin,
        offset: u64,
    ) -> Result<LogPosition, TaskLogError> {
        let files = self.files(output, 0).await?;
        Ok(match origin {
            LogOrigin::Start => position_from_start(&files, offset),
            LogOrigin::End => position_from_end(&files, offset),
        })
    }

    async fn read(
        &self,
        output: &TaskOutput,
        position: LogPosition,
        limit: u64,
    ) -> Result<LogChunk, TaskLogError> {
        let files = self.files(output, position.run).await?;
        let mut next = next_position(&files, position);
        let mut data = vec![];
        if let Some((driver, _)) = self.runs(output).await? {
            let slice = LogSlice { number: next.file, offset: next.offset, limit };
            let run = self.directory(output).run(next.run);
            let read = driver.read_log(&run, output.stream, slice).await;
            data = read.map_err(|error| failed(output, &error))?;
        }
        next.offset += u64::try_from(data.len()).unwrap_or_default();
        let (task, stream) = (&output.task, output.stream.as_str());
        Ok(LogChunk {
            data,
            file: format!("alloc/logs/{task}.{stream}.{}.{}", next.run, next.file),
            next,
        })
    }

    async fn wait_for_more(
        &self,
        output: &TaskOutput,
        position: LogPosition,
    ) -> Result<(), TaskLogError> {
        loop {
            let files = self.files(output, position.run).await?;
            if has_more(&files, position) {
                return Ok(());
            }
            sleep(PERIOD).await;
        }
    }
}

fn failed(output: &TaskOutput, error: &dyn std::fmt::Display) -> TaskLogError {
    TaskLogError { task: output.task.clone(), reason: error.to_string() }
}

/// Returns the position that many bytes after the oldest byte.
fn position_from_start(files: &[OutputFile], offset: u64) -> LogPosition {
    let mut rest = offset;
    let mut position = LogPosition::default();
    for file in files {
        position = LogPosition { offset: rest.min(file.size), ..file.start };
        if rest < file.size {
            break;
        }
        rest -= file.size;
    }
    position
}

/// Returns the position that many bytes before the end.
fn position_from_end(files: &[OutputFile], offset: u64) -> LogPosition {
    let total: u64 = files.iter().map(|file| file.size).sum();
    position_from_start(files, total.saturating_sub(offset))
}

/// Returns where to read at a position: there, or in the next file with bytes if that one is read or was removed.
fn next_position(files: &[OutputFile], position: LogPosition) -> LogPosition {
    let mut found = position;
    for file in files {
        let is_same = (file.start.run, file.start.file) == (position.run, position.file);
        if is_same && position.offset < file.size {
            return position;
        }
        if file.start > position && file.size > 0 {
            return file.start;
        }
        // An empty file may get bytes, and no earlier one will.
        found = found.max(file.start);
    }
    found
}

/// Returns whether there are bytes after a position.
fn has_more(files: &[OutputFile], position: LogPosition) -> bool {
    files.iter().any(|file| {
        let is_same = (file.start.run, file.start.file) == (position.run, position.file);
        let is_later = file.start > position && file.size > 0;
        is_later || is_same && position.offset < file.size
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(run: u32, file: u32, offset: u64) -> LogPosition {
        LogPosition { run, file, offset }
    }

    fn files(list: &[(u32, u32, u64)]) -> Vec<OutputFile> {
        let file = |(run, file, size): &(u32, u32, u64)| OutputFile {
            start: position(*run, *file, 0),
            size: *size,
        };
        list.iter().map(file).collect()
    }

    #[test]
    fn offsets_count_across_runs_and_files_from_both_ends() {
        let files = files(&[(1, 3, 4), (1, 4, 2), (2, 0, 5)]);
        for (offset, from_start, from_end) in [
            (0, position(1, 3, 0), position(2, 0, 5)),
            (1, position(1, 3, 1), position(2, 0, 4)),
            (4, position(1, 4, 0), position(2, 0, 1)),
            (5, position(1, 4, 1), position(2, 0, 0)),
            (6, position(2, 0, 0), position(1, 4, 1)),
            (11, position(2, 0, 5), position(1, 3, 0)),
            (99, position(2, 0, 5), position(1, 3, 0)),
        ] {
            assert_eq!(position_from_start(&files, offset), from_start, "{offset}");
            assert_eq!(position_from_end(&files, offset), from_end, "{offset}");
        }
        assert_eq!(position_from_end(&[], 5), LogPosition::default());
    }

    #[test]
    fn a_reader_goes_on_with_the_next_file_and_skips_what_was_removed() {
        let files = files(&[(1, 3, 4), (1, 4, 0), (2, 0, 5), (2, 1, 0)]);
        for (position, expected, is_more) in [
            (position(0, 0, 0), position(1, 3, 0), true),
            (position(1, 0, 9), position(1, 3, 0), true),
            (position(1, 3, 2), position(1, 3, 2), true),
            (position(1, 3, 4), position(2, 0, 0), true),
            (position(2, 0, 4), position(2, 0, 4), true),
            (position(2, 0, 5), position(2, 1, 0), false),
            (position(2, 1, 0), position(2, 1, 0), false),
        ] {
            assert_eq!(next_position(&files, position), expected, "{position:?}");
            assert_eq!(has_more(&files, position), is_more, "{position:?}");
        }
        assert_eq!(next_position(&[], position(1, 0, 3)), position(1, 0, 3));
    }
}
