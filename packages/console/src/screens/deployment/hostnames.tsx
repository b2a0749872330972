import { type Deployment, listDeploymentHostnames } from '@platform/sdk'
import { Copy } from '../../parts/copy.tsx'
import { Empty } from '../../parts/notice.tsx'
import { Loaded } from '../../parts/panel.tsx'
import { useApi } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'

const types = { DEPLOYMENT: 'Its own, for good', BRANCH: 'Its branch', APP: 'Production' } as const

/** Where it answers. */
export default function Hostnames({ deployment: { id, applicationId } }: { deployment: Deployment }) {
  const hostnames = useApi([...ofApplication(applicationId), 'deployment-hostnames', id], (platform, options) =>
    listDeploymentHostnames(platform, { id }, options),
  )
  return (
    <Loaded answer={hostnames} rows={2}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty>It answers nowhere: it has not become active, or was retired.</Empty>
        ) : (
          <table class="rows">
            <thead>
              <tr>
                <th scope="col">Hostname</th>
                <th scope="col">What it is</th>
                <th scope="col">State</th>
              </tr>
            </thead>
            <tbody>
              {items.map(({ id: hostnameId, hostname, url, type, active }) => (
                <tr key={hostnameId}>
                  <td class="max-sm:basis-full">
                    <span class="inline-flex items-center gap-1">
                      {active ? (
                        <a href={url} target="_blank" rel="noreferrer" class="break-all text-accent hover:underline">
                          {hostname}
                        </a>
                      ) : (
                        <span class="break-all">{hostname}</span>
                      )}
                      <Copy text={url} what="the address" />
                    </span>
                  </td>
                  <td>{types[type]}</td>
                  <td>{active ? 'Answers' : <span class="text-soft">Does not answer yet</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )
      }
    </Loaded>
  )
}
