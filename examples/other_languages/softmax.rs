// Softmax over rows, for npf.from_process("./softmax"). Build it with: rustc --edition 2021 -O softmax.rs
use std::io::{self, BufRead, Read, Write};

fn main() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 { // {"ask": "forward", …, "shapes": [[rows, cols]], …}
        let first = line.split("\"shapes\": [[").nth(1).and_then(|rest| rest.split(']').next()).expect("shapes");
        let sides: Vec<usize> = first.split(", ").map(|side| side.parse().unwrap()).collect();
        let (rows, cols) = (sides[0], sides[1]);
        let is_forward = line.contains("\"ask\": \"forward\"");
        let mut bytes = vec![0; if is_forward { 8 } else { 24 } * rows * cols]; // backward gets x, y and dy
        input.read_exact(&mut bytes)?;
        let numbers: Vec<f64> = bytes.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        let row = |array: usize, i: usize| &numbers[(array * rows + i) * cols..(array * rows + i + 1) * cols];
        writeln!(output, "{{\"dtypes\": [\"float64\"], \"shapes\": [[{rows}, {cols}]]}}")?;
        for i in 0..rows {
            let largest = row(0, i).iter().cloned().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row(0, i).iter().map(|x| (x - largest).exp()).sum();
            let along: f64 = if is_forward { 0.0 } else { row(1, i).iter().zip(row(2, i)).map(|(y, dy)| y * dy).sum() };
            for j in 0..cols {
                let y = (row(0, i)[j] - largest).exp() / total;
                output.write_all(&(if is_forward { y } else { y * (row(2, i)[j] - along) }).to_le_bytes())?;
            }
        }
        output.flush()?;
        line.clear();
    }
    Ok(())
}
