//! The table of ratios, as Markdown.

use std::fmt;

use crate::by::By;
use crate::measure::Times;
use crate::message::Task;

/// What was measured of one task with one message.
pub(crate) struct Row {
    pub(crate) message: &'static str,
    pub(crate) bytes: usize,
    pub(crate) task: Task,
    pub(crate) times: Vec<(By, Times)>,
}

impl Row {
    fn of(&self, by: By) -> Option<Times> {
        self.times
            .iter()
            .find(|(found, _)| *found == by)
            .map(|(_, times)| *times)
    }
}

/// All rows, with a line at the head that says what the numbers are.
pub(crate) struct Table(pub(crate) Vec<Row>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = By::LIMITS.map(|by| format!("of {}", by.name()));
        let others = By::OTHERS.map(By::name);
        let heads = ["message", "bytes", "task", "generated, ns", "quartiles"];
        let heads = heads
            .into_iter()
            .chain(limits.iter().map(String::as_str))
            .chain(others);
        let heads: Vec<&str> = heads.collect();
        writeln!(f, "| {} |", heads.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(heads.len()))?;
        self.0.iter().try_for_each(|row| line(row, f))
    }
}

fn line(row: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(generated) = row.of(By::Generated) else {
        return Ok(());
    };
    let [low, high] = generated.quartiles;
    write!(
        f,
        "| {} | {} | {} ",
        row.message,
        row.bytes,
        row.task.name()
    )?;
    write!(
        f,
        "| {} | {} to {} |",
        number(generated.median),
        number(low),
        number(high)
    )?;
    for by in By::LIMITS {
        cell(row.of(by).map(|times| generated.median / times.median), f)?;
    }
    for by in By::OTHERS {
        cell(row.of(by).map(|times| times.median / generated.median), f)?;
    }
    writeln!(f)
}

fn cell(ratio: Option<f64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match ratio {
        Some(ratio) => write!(f, " {} |", number(ratio)),
        None => f.write_str(" |"),
    }
}

/// Three digits, more or less.
fn number(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_the_sides_that_the_heads_say() {
        let times = |median| Times {
            median,
            quartiles: [median, median * 2.0],
        };
        let times = vec![
            (By::Generated, times(6.0)),
            (By::Hand, times(5.0)),
            (By::Rpcgen, times(90.0)),
        ];
        let table = Table(vec![Row {
            message: "m",
            bytes: 128,
            task: Task::Decode,
            times,
        }])
        .to_string();
        let last = table.lines().last().unwrap_or_default();
        assert_eq!(
            last,
            "| m | 128 | decode | 6.00 | 6.00 to 12.0 | 1.20 | | | | | | 15.0 | | |"
        );
    }
}
