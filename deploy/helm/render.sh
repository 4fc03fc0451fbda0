#!/usr/bin/env bash
# Renders the chart with each file of examples/ into rendered/, which the tests look at where no helm is: deploy/helm/render.sh
# The first line of each says by which helm, and of which files (their SHA-256): a test wants it to be of the present ones.
set -euo pipefail
cd "$(dirname "$0")"
helm=${HELM:-helm}
version=$($helm version --template '{{.Version}}')
for values in examples/*.yaml; do
    of=$(cat tailwright/Chart.yaml tailwright/values.yaml tailwright/values.schema.json tailwright/templates/* "$values" | sha256sum | cut -d' ' -f1)
    body=$($helm template tailwright "$PWD/tailwright" --namespace tailwright --kube-version 1.33.0 --values "$PWD/$values" |
        sed 's/[[:blank:]]*$//')
    printf '# helm %s, of %s\n%s\n' "$version" "$of" "$body" >"rendered/$(basename "$values")"
done
