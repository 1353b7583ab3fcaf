// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// WriteCSV writes summary.csv, series.csv, distributions.csv and users.csv to a folder, which is
// made. Times are in seconds, and no value is rounded.
func WriteCSV(dir string, runs ...*sim.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	called := names(runs)
	summary := [][]string{append([]string{"group", "figure", "unit"}, called...)}
	for _, row := range Rows(runs...) {
		record := []string{row.Group, row.Name, row.Unit}
		for _, value := range row.Values {
			text := ""
			if !math.IsNaN(value) {
				text = number(value)
			}
			record = append(record, text)
		}
		summary = append(summary, record)
	}
	series := [][]string{{"run", "series", "unit", "seconds", "value"}}
	samples := [][]string{{"run", "distribution", "unit", "percentile", "value"}}
	users := [][]string{{"run", "user", "jobs", "mean_slowdown"}}
	for k, run := range runs {
		for _, s := range run.Series {
			for i, value := range s.Values {
				at := (s.Step * time.Duration(i)).Seconds()
				series = append(series, []string{called[k], s.Name, s.Unit, number(at), number(value)})
			}
		}
		for _, d := range distributions(run) {
			for q, value := range d.d.Quantiles {
				samples = append(samples, []string{called[k], d.name, d.unit, strconv.Itoa(q), number(value)})
			}
		}
		for _, u := range run.Users {
			users = append(users, []string{called[k], u.Name, strconv.Itoa(u.Jobs), number(u.Slowdown)})
		}
	}
	for _, table := range []struct {
		file string
		rows [][]string
	}{
		{"summary.csv", summary}, {"series.csv", series}, {"distributions.csv", samples}, {"users.csv", users},
	} {
		if err := writeTable(filepath.Join(dir, table.file), table.rows); err != nil {
			return err
		}
	}
	return nil
}

// writeTable writes a file.
func writeTable(path string, rows [][]string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := csv.NewWriter(file).WriteAll(rows); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
