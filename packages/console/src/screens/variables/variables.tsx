import { ClipboardPaste, Plus } from 'lucide-preact'
import { useLocation } from 'preact-iso'
import { useState } from 'preact/hooks'
import { useLine } from '../../command/terminal.ts'
import { buttonClass } from '../../parts/button.tsx'
import { controlClass } from '../../parts/field.tsx'
import { Empty, Wrong } from '../../parts/notice.tsx'
import { Page } from '../../parts/page.tsx'
import { Loaded, Panel } from '../../parts/panel.tsx'
import { useActivityOf } from '../../platform/deployments.ts'
import { pathOf, useAdminObstacle } from '../../platform/places.ts'
import { useAddress, useChoice } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { counted } from '../../words.ts'
import { InApplication } from '../place.tsx'
import { useCloseForm } from './close-form.ts'
import { environments, layerOf, layerWords, mergeLayers, type Layer } from './layers.ts'
import { listLine } from './lines.ts'
import { NextDeployment } from './next-deployment.tsx'
import { PasteForm } from './paste-form.tsx'
import { useVariables, useVariableStore } from './store.ts'
import { VariableForm } from './variable-form.tsx'
import { VariableTable } from './variable-table.tsx'

export default function VariablesScreen({ organization, application }: { organization: string; application: string }) {
  return (
    <InApplication organization={organization} application={application}>
      <Variables key={`${organization}/${application}`} />
    </InApplication>
  )
}

function Variables() {
  const { organization, application } = useApplication()
  const home = pathOf(organization.slug, application.slug)
  const place = { organization, application, path: `${organization.slug}/${application.slug}` }
  const { query, route } = useLocation()
  const address = useAddress()
  const choice = useChoice('environment', environments)
  const environment = choice.value ?? 'production'
  useActivityOf(application)
  useLine(listLine(place, environment))
  const obstacle = useAdminObstacle(organization.id)
  const [changes, setChanges] = useState(0)
  const store = useVariableStore(place)
  const answer = useVariables(place)
  const isOpen = 'new' in query || 'paste' in query
  const obstacleOf = (layer: Layer): string | undefined => (layer === 'organization' ? obstacle : undefined)
  const close = useCloseForm()
  const onChanged = (): void => setChanges((before) => before + 1)
  const forms = { store, obstacleOf, onClose: close, onChanged }
  const layers: readonly Layer[] = ['application', 'production', 'preview', 'organization']
  return (
    <Page
      title="Variables"
      action={
        <>
          <a id="paste" href={address({ paste: '', new: undefined })} class={buttonClass('quiet')}>
            <ClipboardPaste size={16} strokeWidth={1.5} aria-hidden="true" /> Paste a .env
          </a>
          <a
            id="new-variable"
            href={address({ new: '', paste: undefined })}
            class={buttonClass(isOpen ? 'quiet' : 'main')}
          >
            <Plus size={16} strokeWidth={1.5} aria-hidden="true" /> New variable
          </a>
        </>
      }
    >
      {choice.wrong !== undefined && (
        <Wrong>
          <p class="break-all">The address of this page names an environment that is not there: {choice.wrong}</p>
        </Wrong>
      )}
      <NextDeployment isShown={changes > 0} href={`${home}?deploy`} verb="Deploy" />
      {'new' in query && (
        <Panel title="New variable">
          <VariableForm {...forms} layers={layers} />
        </Panel>
      )}
      {'paste' in query && answer.data && (
        <Panel title="Paste a .env">
          <PasteForm {...forms} place={place} layers={layers} initialLayer={environment} />
        </Panel>
      )}
      <Panel
        title={answer.data ? titleOf(mergeLayers(answer.data, environment).length, environment) : 'All variables'}
        at={answer.dataUpdatedAt}
        action={
          <select
            aria-label="Environment"
            class={controlClass}
            value={environment}
            onChange={({ currentTarget }) => route(address({ environment: currentTarget.value }))}
          >
            <option value="production">Production</option>
            <option value="preview">Preview</option>
          </select>
        }
      >
        <Loaded answer={answer} rows={8}>
          {(variables) => {
            const merged = mergeLayers(variables, environment)
            const other = environment === 'production' ? 'preview' : 'production'
            const elsewhere = variables.filter((variable) => layerOf(variable) === other).length
            return (
              <>
                {merged.length === 0 ? (
                  <Empty
                    action={
                      <a href={address({ paste: '', new: undefined })} class={buttonClass('main')}>
                        Paste a .env
                      </a>
                    }
                  >
                    Deployments in {environment} get no variables yet. Those of the organization, of this application
                    and of the environment appear here.
                  </Empty>
                ) : (
                  <VariableTable merged={merged} store={store} obstacleOf={obstacleOf} onChanged={onChanged} />
                )}
                {elsewhere > 0 && (
                  <p class="mt-3 text-soft">
                    {layerWords[other]} has {counted(elsewhere, 'variable')} of its own.{' '}
                    <a href={address({ environment: other })} class="text-accent underline">
                      Show {other}
                    </a>
                  </p>
                )}
              </>
            )
          }}
        </Loaded>
      </Panel>
    </Page>
  )
}

const titleOf = (count: number, environment: string): string => `${counted(count, 'variable')} in ${environment}`
