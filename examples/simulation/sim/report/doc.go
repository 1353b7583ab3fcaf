// SPDX-License-Identifier: Apache-2.0

// Package report writes the results of simulations for readers: an HTML page, tables in CSV, and a
// table for a terminal.
//
//	err := report.WriteHTML(file, first, second)
//
// The page is self-contained: it has no script, loads nothing, and follows the reader's choice of
// light or dark. Each plot has a table of its values. Several runs stand side by side, and the
// differences are from the first run.
//
// Read returns the report at the end of a journal. Equal reports give equal bytes. The time of
// decisions is measured on the machine and is not in a journal, so the page of a journal is equal for
// equal options of the simulation.
package report
