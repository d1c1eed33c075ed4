// collector: the OpenTelemetry Collector with what the tests of the export need: its receiver of OTLP, and an
// exporter that writes what has arrived to standard output, each request as a line of OTLP's JSON.
package main

import (
	"context"
	"log"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
)

var output sync.Mutex

type lines struct{}

func (lines) Start(context.Context, component.Host) error { return nil }
func (lines) Shutdown(context.Context) error              { return nil }
func (lines) Capabilities() consumer.Capabilities         { return consumer.Capabilities{} }

func write(line []byte, err error) error {
	if err == nil {
		output.Lock()
		defer output.Unlock()
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	return err
}

func (lines) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	return write((&ptrace.JSONMarshaler{}).MarshalTraces(traces))
}

func (lines) ConsumeMetrics(_ context.Context, metrics pmetric.Metrics) error {
	return write((&pmetric.JSONMarshaler{}).MarshalMetrics(metrics))
}

func newTraces(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
	return lines{}, nil
}

func newMetrics(context.Context, exporter.Settings, component.Config) (exporter.Metrics, error) {
	return lines{}, nil
}

func noConfig() component.Config { return &struct{}{} }

// Logs go to standard error. The Collector has no telemetry of its own here: that would be most of the time to build.
func logger(context.Context, telemetry.LoggerSettings, component.Config) (*zap.Logger, component.ShutdownFunc, error) {
	l, err := zap.NewProduction()
	return l, nil, err
}

func factories() (otelcol.Factories, error) {
	f := otelcol.Factories{Telemetry: telemetry.NewFactory(noConfig, telemetry.WithCreateLogger(logger))}
	var err error
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Exporters, err = otelcol.MakeFactoryMap(exporter.NewFactory(component.MustNewType("lines"), noConfig,
		exporter.WithTraces(newTraces, component.StabilityLevelStable),
		exporter.WithMetrics(newMetrics, component.StabilityLevelStable)))
	return f, err
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}, DefaultScheme: "file",
		}},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
