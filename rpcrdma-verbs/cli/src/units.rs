//! Arguments with units: sizes such as `1M`, and times such as `10s`.

use std::time::Duration;

/// The maximum duration: it can be added to any instant.
const MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Parses a number of bytes: `4096`, `64K`, `1M`, `2G` or `1T`, in powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let shift = match unit.strip_suffix("iB").unwrap_or(unit) {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(no_size(text)),
    };
    if unit == "iB" {
        return Err(no_size(text));
    }
    let number: u64 = number.parse().map_err(|_| no_size(text))?;
    let bytes = number.checked_mul(1 << shift);
    bytes.ok_or_else(|| format!("{text} is more than can be counted"))
}

/// Parses a number of bytes below 4 GiB.
pub(crate) fn size_u32(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| format!("{text} is not below 4G"))
}

fn no_size(text: &str) -> String {
    format!("{text} is not a number of bytes, like 4096, 64K, 1M or 2G")
}

/// Parses a time: `20us`, `1.5ms`, `10s`, `5m` or `2h`. Only 0 needs no unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text} is not a time, like 20us, 500ms, 10s, 5m or 2h");
    let (number, unit) = split(text);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" if number == "0" => return Ok(Duration::ZERO),
        "" if number.parse::<f64>().is_ok() => {
            return Err(format!(
                "{text} has no unit: {text}s are seconds, {text}ms thousandths"
            ));
        }
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(number * seconds).ok();
    let time = time.filter(|time| *time <= MAX);
    time.ok_or_else(|| format!("{text} is more than a year"))
}

/// Splits an argument before its unit.
fn split(text: &str) -> (&str, &str) {
    let is_unit = |c: char| !c.is_ascii_digit() && c != '.';
    text.split_at(text.find(is_unit).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("1M", 1 << 20),
            ("3G", 3 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "1.5M",
            "-1",
            "1 M",
            "1MB",
            "1iB",
            "0x10",
            "16777216T",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(size_u32("4095M"), Ok(4095 << 20));
        assert!(size_u32("4G").is_err());
    }

    #[test]
    fn times_have_units() {
        for (text, micros) in [
            ("0", 0),
            ("0s", 0),
            ("20us", 20),
            ("500ms", 500_000),
            ("0.3s", 300_000),
            ("10s", 10_000_000),
            ("5m", 300_000_000),
            ("2h", 7_200_000_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in [
            "", "s", "-1s", "1e3s", "infs", "nans", ".s", "1..2s", "10 s", "9999h",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
        let error = "10 has no unit: 10s are seconds, 10ms thousandths";
        assert_eq!(time("10"), Err(error.to_owned()));
    }
}
