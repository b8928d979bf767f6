//! The table of ratios, as Markdown.

use std::fmt;

use crate::codec::Codec;
use crate::measure::Times;
use crate::message::Task;

/// The times of one task with one message.
pub(crate) struct Row {
    pub(crate) message: &'static str,
    pub(crate) bytes: usize,
    pub(crate) task: Task,
    pub(crate) times: Vec<(Codec, Times)>,
}

impl Row {
    fn of(&self, codec: Codec) -> Option<Times> {
        self.times
            .iter()
            .find(|(found, _)| *found == codec)
            .map(|(_, times)| *times)
    }
}

/// All rows, with a header that names the columns.
pub(crate) struct Table(pub(crate) Vec<Row>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = Codec::LIMITS.map(|codec| format!("of {}", codec.name()));
        let others = Codec::OTHERS.map(Codec::name);
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
    let Some(generated) = row.of(Codec::Generated) else {
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
    for codec in Codec::LIMITS {
        cell(
            row.of(codec).map(|times| generated.median / times.median),
            f,
        )?;
    }
    for codec in Codec::OTHERS {
        cell(
            row.of(codec).map(|times| times.median / generated.median),
            f,
        )?;
    }
    writeln!(f)
}

fn cell(ratio: Option<f64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match ratio {
        Some(ratio) => write!(f, " {} |", number(ratio)),
        None => f.write_str(" |"),
    }
}

/// Formats a number with about three digits.
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
    fn ratios_match_the_column_headers() {
        let times = |median| Times {
            median,
            quartiles: [median, median * 2.0],
        };
        let times = vec![
            (Codec::Generated, times(6.0)),
            (Codec::Hand, times(5.0)),
            (Codec::Rpcgen, times(90.0)),
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
