// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-dev/keelson/examples/nodeagent/localapi"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// asTable asks for a table.
var asTable = http.Header{"Accept": {"application/json;as=Table;v=v1;g=meta.k8s.io"}}

// podPath returns the escaped path of a pod.
func (c *call) podPath(name string) string {
	return "/api/v1/namespaces/" + url.PathEscape(c.namespace) + "/pods/" + url.PathEscape(name)
}

// send sends a request and discards the answer, except for warnings.
func (c *call) send(ctx context.Context, r request) error {
	response, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	for _, warning := range response.Header.Values("Warning") {
		if text, err := strconv.Unquote(strings.TrimPrefix(warning, "299 - ")); err == nil {
			fmt.Fprintln(c.errOut, "warning:", text)
		}
	}
	return response.Body.Close()
}

func listPods(ctx context.Context, c *call) error {
	query := url.Values{"labelSelector": {c.selector}}
	switch c.output {
	case "json":
		return c.print(ctx, request{method: http.MethodGet, path: "/api/v1/pods", query: query}, c.out)
	case "", "wide":
	default:
		return fmt.Errorf("--output %q: want wide or json", c.output)
	}
	return c.table(ctx, "/api/v1/pods", query, c.output == "wide", c.quiet)
}

func listEvents(ctx context.Context, c *call) error {
	if !c.watch {
		return c.table(ctx, "/api/v1/events", nil, false, false)
	}
	response, err := c.do(ctx, request{method: http.MethodGet, path: "/api/v1/events", query: url.Values{"watch": {"true"}}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for lines := json.NewDecoder(response.Body); ; {
		var line struct {
			Type   string
			Object v1.Event
		}
		if err := lines.Decode(&line); err != nil {
			return err
		}
		if e := &line.Object; line.Type != "DELETED" {
			fmt.Fprintf(c.out, "%s  %s  %s  %s/%s  %s\n", e.LastTimestamp.Format(time.TimeOnly), e.Type, e.Reason, strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name, oneLine(e.Message))
		}
	}
}

// table prints a list as the agent's table. Names outside the default namespace have their namespace.
func (c *call) table(ctx context.Context, path string, query url.Values, wide, namesOnly bool) error {
	response, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query, header: asTable})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var t struct {
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []struct {
			Cells  []any
			Object metav1.PartialObjectMetadata
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&t); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	row := func(cell func(i int) string) {
		var cells []string
		for i := range t.ColumnDefinitions {
			if wide || t.ColumnDefinitions[i].Priority == 0 {
				cells = append(cells, oneLine(cell(i)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if !namesOnly {
		row(func(i int) string { return strings.ToUpper(t.ColumnDefinitions[i].Name) })
	}
	for _, r := range t.Rows {
		if namesOnly {
			fmt.Fprintln(w, r.Object.Name)
			continue
		}
		row(func(i int) string {
			text := fmt.Sprint(r.Cells[i])
			if t.ColumnDefinitions[i].Name == "Name" {
				text = shownName(r.Object.Namespace, text)
			}
			return text
		})
	}
	return nil
}

func describePod(ctx context.Context, c *call) error {
	var pod v1.Pod
	if err := c.get(ctx, c.podPath(c.args[0]), nil, &pod); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	started := "-"
	if pod.Status.StartTime != nil {
		started = pod.Status.StartTime.Format(time.DateTime)
	}
	fmt.Fprintf(w, "Pod:\t%s/%s\nUID:\t%s\nPhase:\t%s\nStarted:\t%s\nAddress:\t%s\n", pod.Namespace, pod.Name, pod.UID, phaseOf(&pod), started, pod.Status.PodIP)
	if text := message(&pod); text != "" {
		fmt.Fprintf(w, "Message:\t%s\n", text)
	}
	for _, condition := range pod.Status.Conditions {
		fmt.Fprintf(w, "%s:\t%s\n", condition.Type, strings.TrimSpace(string(condition.Status)+" "+oneLine(join(condition.Reason, condition.Message))))
	}
	fmt.Fprintln(w, "\nCONTAINER\tSTATE\tREADY\tRESTARTS\tLAST EXIT\tIMAGE")
	for s := range podfacts.Statuses(&pod.Status) {
		fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%s\t%s\n", s.Name, stateOf(s.State), s.Ready, s.RestartCount, stateOf(s.LastTerminationState), s.Image)
	}
	var events v1.EventList
	query := url.Values{"fieldSelector": {"involvedObject.uid=" + string(pod.UID)}}
	if err := c.get(ctx, "/api/v1/namespaces/"+url.PathEscape(c.namespace)+"/events", query, &events); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nAGE\tTYPE\tREASON\tCOUNT\tMESSAGE")
	for i := range events.Items {
		e := &events.Items[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", duration.HumanDuration(time.Since(e.LastTimestamp.Time)), e.Type, e.Reason, e.Count, oneLine(e.Message))
	}
	return nil
}

// stateOf returns the state of a container in a few words.
func stateOf(s v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running since " + s.Running.StartedAt.Format(time.TimeOnly)
	case s.Waiting != nil:
		return oneLine(s.Waiting.Reason)
	case s.Terminated != nil:
		return fmt.Sprintf("%d %s", s.Terminated.ExitCode, oneLine(s.Terminated.Reason))
	}
	return "-"
}

func printLogs(ctx context.Context, c *call) error {
	name, container, _ := strings.Cut(c.args[0], "/")
	query := url.Values{"container": {container}, "follow": {strconv.FormatBool(c.follow)}, "previous": {strconv.FormatBool(c.previous)}, "timestamps": {strconv.FormatBool(c.times)}}
	if c.tail >= 0 {
		query.Set("tailLines", strconv.Itoa(c.tail))
	}
	if c.since > 0 {
		query.Set("sinceSeconds", strconv.Itoa(max(1, int(c.since.Seconds()))))
	}
	return c.print(ctx, request{method: http.MethodGet, path: c.podPath(name) + "/log", query: query}, c.out)
}

func restartPod(ctx context.Context, c *call) error {
	if err := c.send(ctx, request{method: http.MethodPost, path: c.podPath(c.args[0]) + "/restart"}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "%s was restarted\n", c.args[0])
	return err
}

// readManifest returns the text of --filename and the name of its pod, and sets the namespace. For
// several documents or another kind, isPod is false, and name is the name of the file.
func (c *call) readManifest() (text []byte, name string, isPod bool, err error) {
	if c.file == "-" {
		text, err = io.ReadAll(c.in)
	} else {
		text, err = os.ReadFile(c.file)
	}
	if err != nil {
		return nil, "", false, err
	}
	documents, err := manifest.Objects(text, manifest.DefaultMaxBytes)
	if err != nil {
		return nil, "", false, fmt.Errorf("%s: %w", c.file, err)
	}
	var head metav1.PartialObjectMetadata
	if json.Unmarshal(documents[0], &head) != nil || head.Kind == "" || head.Name == "" && head.Kind != "List" {
		return nil, "", false, fmt.Errorf("%s: want a manifest with a kind and a name", c.file)
	}
	if len(documents) != 1 || head.Kind != "Pod" {
		name = strings.TrimSuffix(filepath.Base(c.file), filepath.Ext(c.file))
		if c.file == "-" {
			name = head.Kind + "." + head.Name
		}
		return text, strings.ToLower(name), false, nil
	}
	switch {
	case head.Namespace == "":
	case c.changed("namespace") && c.namespace != head.Namespace:
		return nil, "", false, fmt.Errorf("%s: the namespace of the pod is %s, and --namespace is %s", c.file, head.Namespace, c.namespace)
	default:
		c.namespace = head.Namespace
	}
	return text, head.Name, true, nil
}

// manifestPath returns the escaped path of a manifest of any kinds.
func manifestPath(name string) string { return localapi.ManifestPath(url.PathEscape(name)) }

// sendManifest sends a request about a manifest, and then prints done and the name.
func (c *call) sendManifest(ctx context.Context, r request, name, done string) error {
	err := c.send(ctx, r)
	if status, ok := errors.AsType[*statusError](err); ok && status.Code == http.StatusNotFound && r.method != http.MethodDelete {
		return errNoFolder // there is no way to write manifests
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.file, err)
	}
	_, err = fmt.Fprintf(c.out, done, name)
	return err
}

var errNoFolder = errors.New("the agent has no folder of manifests: start it with a folder as PATH")

func applyFile(ctx context.Context, c *call) error {
	if c.file == "" {
		return errors.New("want -f FILE")
	}
	text, name, isPod, err := c.readManifest()
	if err != nil {
		return err
	}
	r := request{method: http.MethodPut, path: manifestPath(name), body: bytes.NewReader(text)}
	if isPod {
		r.method, r.path, r.header = http.MethodPatch, c.podPath(name), http.Header{"Content-Type": {"application/apply-patch+yaml"}}
	}
	return c.sendManifest(ctx, r, name, "%s was applied\n")
}

func removePods(ctx context.Context, c *call) error {
	names := c.args
	if c.file != "" {
		_, name, isPod, err := c.readManifest()
		if err != nil {
			return err
		}
		if !isPod {
			return c.sendManifest(ctx, request{method: http.MethodDelete, path: manifestPath(name)}, name, "%s was removed, and its pods have ended\n")
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return errors.New("want POD or -f FILE")
	}
	for _, name := range names {
		if err := c.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a pod and waits for its end.
func (c *call) remove(ctx context.Context, name string) error {
	var pod v1.Pod
	if err := c.get(ctx, c.podPath(name), nil, &pod); err != nil {
		return err
	}
	query := url.Values{"watch": {"true"}, "resourceVersion": {pod.ResourceVersion}, "fieldSelector": {"metadata.name=" + pod.Name}}
	watched, err := c.do(ctx, request{method: http.MethodGet, path: "/api/v1/namespaces/" + url.PathEscape(c.namespace) + "/pods", query: query})
	if err != nil {
		return err
	}
	defer watched.Body.Close()
	if err := c.send(ctx, request{method: http.MethodDelete, path: c.podPath(name)}); err != nil {
		return err
	}
	for lines := bufio.NewReader(watched.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, `{"type":"DELETED"`) {
			_, err := fmt.Fprintf(c.out, "%s has ended\n", pod.Name)
			return err
		}
	}
}

func printUsage(ctx context.Context, c *call) error {
	var l struct {
		Items []struct {
			Metadata   metav1.ObjectMeta
			Containers []struct {
				Name  string
				Usage v1.ResourceList
			}
		}
	}
	if err := c.get(ctx, "/apis/metrics.k8s.io/v1beta1/pods", nil, &l); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "POD\tCONTAINER\tCPU\tMEMORY")
	for i := range l.Items {
		for _, container := range l.Items[i].Containers {
			fmt.Fprintf(w, "%s\t%s\t%dm\t%dMi\n", shownName(l.Items[i].Metadata.Namespace, l.Items[i].Metadata.Name), container.Name, container.Usage.Cpu().MilliValue(), container.Usage.Memory().Value()>>20)
		}
	}
	return nil
}

func listImages(ctx context.Context, c *call) error {
	var nodes v1.NodeList
	if err := c.get(ctx, "/api/v1/nodes", nil, &nodes); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "IMAGE\tSIZE")
	for i := range nodes.Items {
		for _, image := range nodes.Items[i].Status.Images {
			fmt.Fprintf(w, "%s\t%dMi\n", cmp.Or(strings.Join(image.Names, " "), "<none>"), image.SizeBytes>>20)
		}
	}
	return nil
}
